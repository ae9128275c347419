"""What is done to the text of the built pages, and to what lies beside them."""
