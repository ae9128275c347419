"""What the machine does not have is refused in one line, before anything is made of it."""

import os

import pytest
import torch

from lib.transformer import Config, Transformer
from train.machine import BYTES, device, expect_memory, use_threads

SIZES = {"d_model": 6, "n_heads": 3, "d_ff": 5, "n_layers": 7}


def test_devices():
    assert device("cpu") == torch.device("cpu")
    assert device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["meta", "vulkan", "xla", "hpu", "privateuseone"])
def test_devices_that_cannot_compute(name):
    message = rf"expected a device that computes, got '{name}' \(.*\); say --device cpu"
    with pytest.raises(ValueError, match=message):
        device(name)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="needs a machine without MPS")
def test_no_mps():
    with pytest.raises(ValueError, match=r"got 'mps' \(.*\); say --device cpu"):
        device("mps")


def test_no_device():
    with pytest.raises(ValueError, match="expected a device such as cpu or cuda, got 'abacus'"):
        device("abacus")


def test_more_threads_than_processors():
    before, most = torch.get_num_threads(), os.cpu_count()
    with pytest.raises(ValueError, match=rf"at most {most}, the processors .*, got {most + 1}"):
        use_threads(most + 1)
    assert torch.get_num_threads() == before
    use_threads(1)
    assert torch.get_num_threads() == 1
    use_threads(before)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_model_that_fits_is_never_refused(monkeypatch, shared, activation):
    """The bound is below the true number of parameters, and not far below."""
    config = Config(11, None if shared else 13, activation=activation, **SIZES)
    true = sum(p.numel() for p in Transformer(config).parameters())
    for memory in (true, true // 2):
        monkeypatch.setattr("train.machine._memory", lambda _, n=memory: BYTES * n)
        if memory == true:
            expect_memory(config, torch.device("cpu"))
        else:
            with pytest.raises(ValueError, match="expected a model that fits into the memory of 0"):
                expect_memory(config, torch.device("cpu"))


def test_each_process_of_a_machine_has_a_copy(monkeypatch):
    config = Config(11, 13, **SIZES)
    true = sum(p.numel() for p in Transformer(config).parameters())
    monkeypatch.setattr("train.machine._memory", lambda _: BYTES * true)
    with pytest.raises(ValueError, match="lower --d-model, --d-ff, --layers"):
        expect_memory(config, torch.device("cpu"), copies=2)
    expect_memory(config, torch.device("cuda"), copies=2)  # one GPU for each


@pytest.mark.parametrize("size", ["d_model", "d_ff", "n_layers"])
def test_sizes_without_sense_are_refused_at_once(size):
    config = Config(11, 13, **SIZES | {size: 6 * 10**18})
    with pytest.raises(ValueError, match=r"fits into the memory of .* GiB, got one of .* or more"):
        expect_memory(config, torch.device("cpu"))


def test_a_system_that_does_not_tell_its_memory(monkeypatch):
    monkeypatch.delattr(os, "sysconf", raising=False)
    expect_memory(Config(11, 13, **SIZES | {"n_layers": 10**9}), torch.device("cpu"))
