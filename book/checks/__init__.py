"""How an answer is judged: the framework of the checks, and properties that chapters share."""
