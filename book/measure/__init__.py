"""What a model costs, counted and observed, and the records of long measurements."""
