"""16 bits for the products; attention's plain kernel on a processor, and only meanwhile."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lib.training import low_precision
from tests.helpers import normal

CPU = torch.device("cpu")


def kernels(dtype):
    """The names of the attention kernels that one call runs."""
    x = torch.randn(1, 2, 7, 8)
    with torch.profiler.profile() as profile, low_precision(CPU, dtype):
        F.scaled_dot_product_attention(x, x, x)
    return {event.key for event in profile.key_averages() if "dot_product" in event.key}


def test_products_are_small_and_weights_stay():
    layer, x = nn.Linear(5, 7), normal(3, 5, dtype=torch.float32)
    with low_precision(CPU, torch.bfloat16):
        small = layer(x)
    assert small.dtype == torch.bfloat16
    assert layer.weight.dtype == torch.float32
    torch.testing.assert_close(small.float(), layer(x), atol=0.02, rtol=0.02)


def test_without_a_type_nothing_changes():
    layer, x = nn.Linear(5, 7), normal(3, 5, dtype=torch.float32)
    with low_precision(CPU, None):
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    assert any("flash" in name for name in kernels(None))


def test_attention_takes_its_plain_kernel_meanwhile():
    assert not any("flash" in name for name in kernels(torch.bfloat16))
    assert any("flash" in name for name in kernels(None))  # and the fused one again afterwards


def test_an_error_inside_leaves_no_trace():
    with pytest.raises(RuntimeError, match="inside"), low_precision(CPU, torch.bfloat16):
        raise RuntimeError("inside")
    assert not torch.is_autocast_enabled("cpu")
    assert any("flash" in name for name in kernels(None))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_attention_keeps_its_fused_kernel():
    x = torch.randn(1, 2, 7, 8, device="cuda")
    with torch.profiler.profile() as profile, low_precision(x.device, torch.bfloat16):
        F.scaled_dot_product_attention(x, x, x)
    names = {event.key for event in profile.key_averages()}
    assert "aten::_scaled_dot_product_attention_math" not in names
