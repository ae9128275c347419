"""What the book draws: schematics, the map, and the parts that all figures are made of."""
