"""Widgets that live both in a notebook and in the published page. `base` tells how."""
