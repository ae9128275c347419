"""The chapters as readers open them: plain Markdown, in any notebook program."""
