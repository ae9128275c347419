"""A mixture of experts: several feed-forward networks, of which each token passes the chosen few.

What is here: the layer (`MixtureOfExperts`), what its routers said in a run of the model
(`router_logits`), and the loss that makes the router use all experts (`load_balancing_loss`)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.layers import FeedForward


class MixtureOfExperts(nn.Module):
    """sum over the n_active chosen experts i of g_i(x) FFN_i(x), each position by itself.

    The router, a linear layer, scores all experts. The n_active best are chosen, and g is the
    softmax of their scores alone, so it sums to 1.

    Shapes: x (*batch, d_model). Returns the same shape.
    Errors: ValueError for n_active below 1 or above n_experts, or another dimension of x.
    Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral of Experts), section 2.1.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        n_experts: int,
        n_active: int = 2,
        *,
        activation: str = "swiglu",
        bias: bool = False,
    ):
        super().__init__()
        require_choice(n_active, n_experts)
        self.n_active = n_active
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(
            FeedForward(d_model, d_ff, activation, bias=bias) for _ in range(n_experts)
        )

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        if x.shape[-1] != self.router.in_features:
            raise ValueError(
                f"expected an input of dimension d_model={self.router.in_features} for "
                f"MixtureOfExperts, got {tuple(x.shape)}; the last axis holds the vector of a "
                "position"
            )
        tokens = x.reshape(-1, x.shape[-1])  # (tokens, d_model)
        chosen, weights = self.route(tokens)  # both (tokens, n_active)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, rank = torch.where(chosen == number)  # the tokens that chose it, and as which
            change = weights[token, rank, None] * expert(tokens[token])
            output = output.index_add(0, token, change.to(output.dtype))
        return output.view_as(x)

    def route(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> tuple[Int[Tensor, "*batch n_active"], Float[Tensor, "*batch n_active"]]:
        """Return the experts that each position passes, the best first, and their weights.

        Shapes: x (*batch, d_model). Returns (*batch, n_active) twice: numbers of experts, and
            weights, which sum to 1. They are computed in float32 at least.
        Source: Jiang et al. 2024, section 2.1.
        """
        scores = self.router(x)  # (*batch, n_experts)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        best = scores.topk(self.n_active, dim=-1)
        return best.indices, best.values.softmax(dim=-1)


@contextmanager
def router_logits(model: nn.Module) -> Iterator[list[Float[Tensor, "..."]]]:
    """Meanwhile, collect what each router of the model gives, in the order in which they run.

    Each is (tokens, n_experts), with its gradient: torch.stack of them goes to
    `load_balancing_loss`. Empty the list between two runs of the model.
    """
    found: list[Tensor] = []
    hooks = [
        module.router.register_forward_hook(lambda router, inputs, logits: found.append(logits))
        for module in model.modules()
        if isinstance(module, MixtureOfExperts)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def load_balancing_loss(
    logits: Float[Tensor, "*tokens n_experts"], n_active: int
) -> Float[Tensor, ""]:
    """n_experts * sum over experts i of f_i P_i: how unevenly the tokens are spread over experts.

    f_i is the fraction of tokens that choose expert i; as each chooses n_active, the f_i sum to
    n_active. P_i is the mean over tokens of the probability of i, in a softmax over all experts.
    If f or P is the same for all experts, the loss is n_active (1 in Switch, where n_active is 1).
    If all tokens choose the same experts, and no other has any probability, it is n_experts. f has
    no gradient: the router learns by P.

    Shapes: logits (*tokens, n_experts), all axes before the last taken as one: those of several
        layers, stacked, count as one set of tokens, as in Mixtral. Leave padding out before.
        Returns a scalar, in float32 at least.
    Errors: ValueError for n_active below 1 or above n_experts.
    Source: Fedus et al. 2022 (Switch Transformers), equations 4 to 6; the sum over several choices
        is that of Mixtral's published code.
    """
    n_experts = logits.shape[-1]
    require_choice(n_active, n_experts)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).reshape(-1, n_experts)
    chosen = logits.topk(n_active, dim=-1).indices  # (tokens, n_active)
    counts = torch.bincount(chosen.flatten(), minlength=n_experts)  # (n_experts)
    fraction = counts.to(logits.dtype) / len(logits)
    probability = logits.softmax(dim=-1).mean(dim=0)  # (n_experts)
    return n_experts * (fraction * probability).sum()


def require_choice(n_active: int, n_experts: int) -> None:
    if not 1 <= n_active <= n_experts:
        raise ValueError(
            f"expected n_active from 1 to n_experts, got n_active={n_active} and "
            f"n_experts={n_experts}; a token passes each expert once"
        )
