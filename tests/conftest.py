"""Settings for all tests: one thread each, and shapes checked as the signatures state them."""

import os

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import torch
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook(["lib", "kit", "train"], "beartype.beartype")
torch.set_num_threads(1)
settings.register_profile("book", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("book")
