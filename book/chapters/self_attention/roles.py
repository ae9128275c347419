"""A task that word order decides: who does it, what is done, and to whom, in "dog bites man"."""

import itertools
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

NOUNS = ("dog", "man", "cat", "bird", "child", "horse", "cow", "goat")
VERBS = ("bites", "sees", "follows", "likes")
ROLES = ("who", "act", "whom")  # of the first, second and third word
STEPS, LR = 100, 3e-3


def role_sentences() -> list[str]:
    """All sentences of a noun, a verb and another noun; each also with its nouns swapped."""
    pairs = itertools.product(itertools.permutations(NOUNS, 2), VERBS)
    return [f"{who} {verb} {whom}" for (who, whom), verb in pairs]


def sentence_ids(sentences: list[str]) -> Int[Tensor, "batch time"]:
    """The words as numbers."""
    number = {word: i for i, word in enumerate(NOUNS + VERBS)}
    return torch.tensor([[number[word] for word in sentence.split()] for sentence in sentences])


class RoleModel(nn.Module):
    """PyTorch's own encoder, two layers of self-attention, that names the role of each word.

    Args: positions, whether a learned vector for each position is added to the words' vectors.
    """

    def __init__(self, positions: bool = False, d_model: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(len(NOUNS + VERBS), d_model)
        self.positions = nn.Parameter(torch.randn(3, d_model)) if positions else 0
        layer = nn.TransformerEncoderLayer(d_model, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.read = nn.Linear(d_model, len(ROLES))

    def forward(self, words: Int[Tensor, "batch 3"]) -> Float[Tensor, "batch 3 role"]:
        return self.read(self.encoder(self.embedding(words) + self.positions))


class GRUModel(nn.Module):
    """The same by a recurrent network, which reads the words in order, from both ends."""

    def __init__(self, d_model: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(len(NOUNS + VERBS), d_model)
        self.encoder = nn.GRU(d_model, d_model, batch_first=True, bidirectional=True)
        self.read = nn.Linear(2 * d_model, len(ROLES))

    def forward(self, words: Int[Tensor, "batch 3"]) -> Float[Tensor, "batch 3 role"]:
        return self.read(self.encoder(self.embedding(words))[0])


def train_roles(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """Train a model on all sentences with Adam; it comes back in float64."""
    torch.manual_seed(seed)
    words = sentence_ids(role_sentences())
    roles = torch.arange(3).expand_as(words)
    model = make()
    optimiser = torch.optim.Adam(model.parameters(), lr=LR)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(words).flatten(0, 1), roles.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.double()


@torch.no_grad()
def roles_right(model: nn.Module) -> float:
    """The fraction of words whose role is right, over the sentences of the training."""
    answers = model(sentence_ids(role_sentences())).argmax(dim=-1)
    return (answers == torch.arange(3)).double().mean().item()
