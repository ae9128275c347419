"""The directives that the book's pages use."""
