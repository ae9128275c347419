"""What the book's models learn: tasks made by rule, whose every answer is known."""
