"""A run of `python -m train` as a page that opens from a file, with the trained model in it."""
