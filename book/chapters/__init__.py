"""All of each chapter but its notebook: one room for each, named like it."""
