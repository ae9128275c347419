"""What is read from the sources of the book before a page is built: contents, rooms, Markdown."""
