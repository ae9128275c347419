"""Settings for all tests: shapes checked as the signatures state them, and the threads that
OMP_NUM_THREADS asks for, one if it is not set.
"""

import os

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch as it is imported

from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook(["lib", "kit", "tasks", "train"], "beartype.beartype")
settings.register_profile("book", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("book")
