"""Attention with what Qwen's models add: norms of queries and keys, biases of three projections."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.layers import RMSNorm


class ModernAttention(MultiHeadAttention):
    """`MultiHeadAttention` whose queries and keys may pass an RMSNorm before they are rotated.

    q = RMSNorm(x W^Q), k = RMSNorm(x W^K), head by head, with one gain of d_k entries for all heads
    of queries and one for all heads of keys. While the gains are 1, no score is above sqrt(d_k).

    Args: qkv_bias, biases for W^Q, W^K and W^V alone, where bias is False; qk_norm_eps, eps of the
        two norms, None for no norm; the others are those of `MultiHeadAttention`.
    Source: Dehghani et al. 2023, section 2 (there with layer norm); Yang et al. 2025 (Qwen3).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_k: int,
        bias: bool,
        qkv_bias: bool = False,
        qk_norm_eps: float | None = None,
        **others: Any,
    ):
        super().__init__(d_model, n_heads, d_k=d_k, d_v=d_k, bias=bias or qkv_bias, **others)
        if not bias:
            self.w_o.register_parameter("bias", None)

        def norm() -> RMSNorm | None:
            return None if qk_norm_eps is None else RMSNorm(d_k, eps=qk_norm_eps)

        self.q_norm, self.k_norm = norm(), norm()

    def _split_heads(
        self, projection: nn.Module, x: Float[Tensor, "batch time d_model"]
    ) -> Float[Tensor, "batch heads time d"]:
        heads = super()._split_heads(projection, x)
        if projection is self.w_q and self.q_norm is not None:
            return self.q_norm(heads)
        if projection is self.w_k and self.k_norm is not None:
            return self.k_norm(heads)
        return heads
