"""What is done to a page before it is written."""
