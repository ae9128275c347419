"""What the chapters need beside the library: a folder for each, and `shared` for several."""
