"""Train a Transformer on your own sentences: `python -m train`, in the folder `book`."""
