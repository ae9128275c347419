"""Settings for all tests: shapes checked as the signatures state them, and the threads that
OMP_NUM_THREADS asks for, one if it is not set.
"""

import os

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch as it is imported

from hypothesis import settings
from jaxtyping import install_import_hook

ROOMS = ["lib", "tasks", "checks", "drawing", "widgets", "engine", "measure", "train", "chapters"]
install_import_hook(ROOMS, "beartype.beartype")
settings.register_profile("book", derandomize=True, deadline=None, max_examples=60)
settings.register_profile(  # `make fuzz`: a new seed each time, which gives the same inputs again
    "nightly", deadline=None, max_examples=3000, database=None, print_blob=False
)
settings.load_profile("book")
