"""What every widget is made of: the base, its traits, and models that a page can compute with."""
