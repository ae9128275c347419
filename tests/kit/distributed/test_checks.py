"""The check of the exercise: it refuses the empty answer, and every one of the wrong shape."""

import pytest

from kit.distributed.checks import check_distributed
from kit.shared.checks import CheckFailed


@pytest.mark.parametrize("answer", [lambda x: None, lambda x: x[:-1], lambda x: x.T])
def test_what_is_no_answer_is_refused(answer):
    with pytest.raises(CheckFailed, match="expected"):
        check_distributed(answer)
