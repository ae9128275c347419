"""A kernel that dies as it starts is started again.

Its five ports are chosen before it begins and are free for about a second, and whoever takes one
of them in that time (chapter 17's processes open dozens) ends it with "Address already in use".
"""

import functools
import warnings

from nbval import kernel

TRIES = 3


def started_again(start, tries=TRIES):
    """`start`, called up to `tries` times until it raises no RuntimeError."""

    @functools.wraps(start)
    def start_until_it_lives(*args, **kwargs):
        for attempt in range(1, tries):
            try:
                return start(*args, **kwargs)
            except RuntimeError as error:
                warnings.warn(f"start {attempt} of a kernel: {error}", stacklevel=2)
        return start(*args, **kwargs)

    return start_until_it_lives


def pytest_configure():
    if not hasattr(kernel.start_new_kernel, "__wrapped__"):
        kernel.start_new_kernel = started_again(kernel.start_new_kernel)
