"""One start of two workers, whose measurements several files of tests read."""

import pytest
import torch

from chapters.distributed.launch import run_workers
from chapters.distributed.tests.in_workers import measure


@pytest.fixture(scope="session")
def two_workers():
    """What each of two ranks measured."""
    if not torch.distributed.is_gloo_available():
        pytest.skip("torch was built without gloo")
    return run_workers(measure, patience=60, timeout=200).results
