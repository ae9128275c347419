// Stands in for the theme's file of this name, which draws icons a second time (542 kB gzip).
// The icons come from the theme's own fonts, cut down by build/pages/fonts.py.
