"""Answers to the exercises of the chapter: right ones in several styles, and mistakes."""

RIGHT = {
    "my_distributed": [],  # at least three
}
WRONG = {
    "my_distributed": {},  # at least four, each with a piece of the message that it must get
}
