"""The library that the chapters build, one part at a time.

Every shape in this library is written with the words below, and so is the prose of the book.

    batch     sequences worked on side by side
    heads     attention heads
    query     positions that ask (the rows of an attention map)
    key       positions that are asked (its columns); a value stands at the same position
    time      positions in a sequence, where only one sequence is meant
    d_model   dimension of the vector at a position
    d_k, d_v  dimension of one head's queries and keys, and of its values
    d_ff      inner dimension of the feed-forward network
    vocab     entries of a vocabulary

A mask is boolean, and True means "may attend".

A user's mistake ends in a ValueError that says what was expected and what came; two tensors that
do not fit each other may also end in torch's own RuntimeError, which names both sizes.

Importing this package imports nothing else: a chapter names the module that it needs.
"""
