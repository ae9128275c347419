"""How an answer is judged: the framework of every check, and properties that several chapters ask for."""
