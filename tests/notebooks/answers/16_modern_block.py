"""Answers to the exercises of the chapter: right ones in several styles, and mistakes."""

RIGHT = {
    "my_modern_block": [],  # at least three
}
WRONG = {
    "my_modern_block": {},  # at least four, each with a piece of the message that it must get
}
