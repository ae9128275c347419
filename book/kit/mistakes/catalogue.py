"""Some thirty mistakes that people made in Transformers, each in a re-creation of our own.

`MISTAKES` lists them: where each one stood, what one sees, why, and how it is mended. Each one in a
model replaces one method of `specimen.PlainAttention` or of `specimen.Specimen`, which are right;
`mistake_matrix` asks every property of every one."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kit.mistakes import in_attention as attention
from kit.mistakes import in_model as model
from kit.mistakes import in_pieces as pieces
from kit.mistakes.layer_properties import found_in
from kit.mistakes.properties import check_attention_layer, check_model
from kit.mistakes.specimen import PlainAttention, Specimen
from kit.shared.checks import Finding


@dataclass(frozen=True)
class Mistake:
    """A broken class or function, where it stood, which property names it, what one sees, and why."""

    broken: type | Callable
    title: str
    group: str
    source: str
    property: str
    looks: str
    why: str
    mended: str

    @property
    def name(self) -> str:
        """The name of the broken class or function."""
        return self.broken.__name__

    @property
    def in_a_model(self) -> bool:
        """Whether it breaks a model, and not a single piece."""
        return inspect.isclass(self.broken)

    @property
    def attention(self) -> type[PlainAttention]:
        """The attention layer of its model, broken or right."""
        return self.broken if issubclass(self.broken, PlainAttention) else PlainAttention

    def make(self, source_vocab: int, target_vocab: int, **sizes: int) -> Specimen:
        """A model with this mistake and no other.

        Errors: ValueError for a mistake that is not in a model.
        """
        if not self.in_a_model:
            raise ValueError(f"expected a mistake in a model, got the function {self.name}")
        kind = Specimen if issubclass(self.broken, PlainAttention) else self.broken
        return kind(source_vocab, target_vocab, self.attention, **sizes)

    def code(self) -> str:
        """The broken code, without its docstring."""
        source = textwrap.dedent(inspect.getsource(self.broken))
        lines = source.rstrip().splitlines()
        docstring = ast.parse(source).body[0].body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
        text = "\n".join(line.split("  # noqa")[0] for line in lines)
        return text.replace(":\n\n", ":\n", 1)


SHAPES, MASKS, MODULES = "Shapes and scaling", "Masks", "Modules"
POSITIONS, TRAINING, DECODING = "Positions", "Training", "Decoding and scoring"
ARTICLE, DRAFT = "tutorials", "first drafts"
MISTAKES = (
    Mistake(
        attention.RootOfHeads, "Root of size(1)", SHAPES, ARTICLE, "spread",
        "Maps that are too sharp, or too flat, depending on the number of heads.",
        "After the split, axis 1 counts the heads. The width of a head is the last axis.",
        "math.sqrt(query.size(-1))",
    ),
    Mistake(
        attention.RootOfWidth, "Root of d_model", SHAPES,
        "Machine-Learning-Collection #30, #65", "spread",
        "Flat maps; with 8 heads the scores are 2.8 times too small.",
        "A score is a sum over the d_k entries of one head, so its variance grows with d_k.",
        "math.sqrt(d_k)",
    ),
    Mistake(
        attention.EveryAxisTurned, "K.T on a batch", SHAPES, ARTICLE, "sizes",
        "An error about sizes, or none where batch, time and width are equal.",
        "On more than two axes .T turns them all round. Only the last two may change places.",
        "key.transpose(-2, -1)",
    ),
    Mistake(
        attention.SoftmaxOverQueries, "Softmax over the queries", SHAPES,
        "annotated_deep_learning_paper_implementations #146", "weights",
        "A loss that is too good, and no sentence at all when the model decodes.",
        "Every key's column sums to 1, so each query's weights depend on later queries.",
        "scores.softmax(dim=-1)",
    ),
    Mistake(
        attention.SoftmaxOverBatch, "Softmax over the batch", SHAPES,
        "attention-is-all-you-need-pytorch #52", "alone",
        "A translation that depends on the other sentences of its batch.",
        "The weights of a pair sum to 1 over the sentences. Name the axis, always.",
        "scores.softmax(dim=-1)",
    ),
    Mistake(
        attention.HeadsOnSlices, "Heads on slices", SHAPES, ARTICLE, "count",
        "It learns, if a little less well than the right one.",
        "A head sees d_k features of its input, not all d_model, and all heads share one matrix.",
        "split(w_q(x)), not w_q(split(x))",
    ),
    Mistake(
        attention.HeadsByReshape, "Heads by one reshape", SHAPES, "d2l-en #2056", "future",
        "A normal training loss and worthless translations.",
        "reshape reads on across positions: a head gets parts of several tokens, later ones too.",
        "x.unflatten(-1, (n_heads, -1)).transpose(1, 2)",
    ),
    Mistake(
        attention.WideHeads, "Heads too wide", SHAPES, ARTICLE, "count",
        "Slow, large, and it learns.",
        "Each head has width d_model in place of d_model / h: the layer is h times as large.",
        "d_k = d_model // n_heads",
    ),
    Mistake(
        attention.OutputTurned, "W^O turned round", SHAPES, ARTICLE, "copied",
        "Nothing, where h d_v = d_model: the matrix is square.",
        "With positions as rows, W^O stands on the right and has h d_v rows.",
        "self.w_o(joined)",
    ),
    Mistake(
        attention.InvertedMask, "Mask the wrong way round", MASKS,
        "LLMs-from-scratch #1061, pytorch #170400", "future",
        "A loss that is far too good, and no translations.",
        "Here and in F.scaled_dot_product_attention True = may attend, elsewhere True = masked.",
        "scores.masked_fill(~mask, lowest)",
    ),
    Mistake(
        attention.MaskedAfterSoftmax, "Masked after the softmax", MASKS, DRAFT, "weights",
        "A loss that is too good.",
        "The hidden keys stay in the denominator, and with it the future and the padding.",
        "mask the scores, then take the softmax",
    ),
    Mistake(
        attention.MinusBillion, "Filled with -1e9", MASKS, ARTICLE, "half",
        "An error in float16. For a row without a key, a mean over what was forbidden.",
        "float16 ends at 65,504. And a row of equal scores is uniform, however low they are.",
        "torch.finfo(scores.dtype).min, then weights.masked_fill(~mask, 0.0)",
    ),
    Mistake(
        attention.MinusInfinity, "Filled with -inf alone", MASKS, "pytorch #41508", "weights",
        "NaN as soon as a batch holds an empty sentence.",
        "A row that is all -inf is 0 / 0 in the softmax.",
        "weights.masked_fill(~mask, 0.0) after the softmax",
    ),
    Mistake(
        model.AndForOr, "& for |", MASKS, ARTICLE, "future",
        "A good loss and bad translations.",
        "Where True = masked, a key is hidden if one mask or the other hides it.",
        "later | padding",
    ),
    Mistake(
        model.NoTargetMask, "No target mask", MASKS,
        "attention-is-all-you-need-pytorch #19", "future",
        "98 % training accuracy, it was reported, and garbage as output.",
        "Position t sees token t + 1, which is what it must say.",
        "causal_mask(time)",
    ),
    Mistake(
        model.MaskInTrainingOnly, "Target mask in training only", MASKS, "d2l", "future",
        "Validation looks like overfitting.",
        "The model is trained as one function and judged as another.",
        "the mask does not depend on self.training",
    ),
    Mistake(
        model.QueriesMasked, "Padding on the queries", MASKS, "repositories", "padding",
        "Nothing, until a sentence is translated in another batch.",
        "(batch, query, 1) empties rows that nobody reads and leaves padded keys open.",
        "padding_mask(lengths, time), which is (batch, 1, key)",
    ),
    Mistake(
        model.CosineExponent, "Exponent 2i+1 in the cosine", POSITIONS,
        "Transformer by SamLynnEvans #25, LoFTR #41", "shift",
        "Nothing: each position still has a code of its own.",
        "Sine and cosine of a pair turn at different speeds, so no matrix shifts all positions.",
        "both have the exponent 2i / d_model",
    ),
    Mistake(
        model.AlwaysPositionZero, "Every step at position 0", POSITIONS, "d2l", "stepwise",
        "The loss is right. Translations are a little worse, as of a model trained too little.",
        "A step sees one token, takes it for the first, and adds PE(0).",
        "positions start, start + 1, ... with start = tokens so far",
    ),
    Mistake(
        model.PositionsDropped, "Positions dropped", POSITIONS, DRAFT, "order",
        "Hardly anything, where the sentences are short.",
        "x.add(y) returns the sum and leaves x alone.",
        "x = x + positions",
    ),
    Mistake(
        attention.OutputMadeInForward, "Projection made in forward", MODULES,
        "nlp-tutorial #29", "repeat",
        "It learns slowly, and the same input gives other logits each time.",
        "A new random matrix at each call: the optimiser never sees it.",
        "make it in __init__",
    ),
    Mistake(
        model.TableAsAttribute, "Table as an attribute", MODULES, ARTICLE, "moves",
        "Nothing on a processor; on a GPU, an error about two devices.",
        ".to() moves parameters and buffers, and nothing else.",
        'self.register_buffer("table", table)',
    ),
    Mistake(
        model.LayersInAList, "Layers in a plain list", MODULES, DRAFT, "learns",
        "It learns a little: embeddings and projection do.",
        "A Python list hides its layers from parameters(), state_dict() and .to().",
        "nn.ModuleList(layers)",
    ),
    Mistake(
        model.UsedBeforeAssigned, "Used before it is set", MODULES, ARTICLE, "sizes",
        "An error at the first call; in a notebook, maybe an old value and no error.",
        "In a cell the name may still hold the tensor of an earlier run.",
        "embedded = embedding(tokens) comes first",
    ),
    Mistake(
        model.LoudTying, "Tied to N(0, 1)", TRAINING, DRAFT, "first loss",
        "A first loss many times ln V.",
        "A logit is then a sum of d_model products of size 1: its spread is sqrt(d_model).",
        "nn.init.normal_(weight, std=d_model ** -0.5)",
    ),
    Mistake(
        model.ScaledLogits, "sqrt(d_model) at the output", TRAINING, ARTICLE, "first loss",
        "A first loss too high; it gets over it.",
        "The factor belongs to the look-up alone, also where the matrix is shared.",
        "embedding(tokens) * scale, and logits without it",
    ),
    Mistake(
        model.UnbiasedNorm, "Unbiased LayerNorm", TRAINING,
        "the Annotated Transformer", "copied",
        "Nothing, until weights come from elsewhere.",
        "x.std() divides by d - 1. LayerNorm divides by d.",
        "x.std(correction=0), and eps under the root",
    ),
    Mistake(
        pieces.rates_by_micro_batch, "Schedule by micro-batch", TRAINING,
        "training scripts", "updates",
        "A warm-up that ends too soon.",
        "The schedule counts micro-batches where it should count updates.",
        "schedule(update), once for each optimizer.step()",
    ),
    Mistake(
        pieces.smoothed_by_products, "0 times -inf in the smoothed loss", TRAINING,
        "annotated-transformer #38, #109", "forbidden",
        "NaN, or infinity, from one token that may not be said.",
        "0 times ln 0 is 0 on paper and NaN in a computer.",
        "log_p.masked_fill(~allowed, 0.0)",
    ),
    Mistake(
        pieces.top_k_tiny_filler, "Top-k filled with 1e-10", DECODING, "notebooks", "cut",
        "Samples that top-k should have cut.",
        "1e-10 is meant as a probability and used as a logit; exp(1e-10) is 1.",
        "-torch.inf",
    ),
    Mistake(
        pieces.bleu_turned, "BLEU with its arguments swapped", DECODING, "notebooks", "brevity",
        "A score that is plausible.",
        "Precision and the brevity penalty belong to the predictions, which come first.",
        "bleu(predictions, references)",
    ),
)  # fmt: skip
VOCABULARIES = 29, 23  # of the models that are tested
COLUMNS = (
    *("sizes", "weights", "spread", "half", "shift", "future", "padding", "alone", "felt", "order"),
    *("stepwise", "repeat", "saved", "moves", "learns", "count", "first loss", "one batch"),
    "copied",
)


def find_mistake(name: str) -> Mistake:
    """The mistake whose broken class or function has this name.

    Errors: ValueError for a name that none has.
    """
    for mistake in MISTAKES:
        if mistake.name == name:
            return mistake
    raise ValueError(f"expected the name of a mistake, such as NoTargetMask, got {name!r}")


def findings_of(mistake: Mistake | None) -> dict[str, Finding]:
    """What each property finds in the model with this mistake, or in the right one for None."""
    if mistake is not None and not mistake.in_a_model:
        found = found_in(mistake.broken, mistake.property)
        return {found.name: found}
    make = Specimen if mistake is None else mistake.make
    layer = PlainAttention if mistake is None else mistake.attention
    torch.manual_seed(0)
    right = type("Right", (Specimen,), {"tied": make(*VOCABULARIES).tied})(*VOCABULARIES)
    shift = found_in(make(*VOCABULARIES).table, "shift")
    of_layer = check_attention_layer(layer)
    of_model = check_model(
        lambda: make(*VOCABULARIES),
        *VOCABULARIES,
        parameters=sum(p.numel() for p in right.parameters()),
        reference=lambda model: model.reference(),
    )
    found = {finding.name: finding for finding in (shift, *of_layer)}
    for finding in of_model:  # "sizes" is asked of both: what fails is kept
        if finding.name not in found or found[finding.name].held:
            found[finding.name] = finding
    return {name: found[name] for name in COLUMNS}


def mistake_matrix() -> dict[str, dict[str, Finding]]:
    """The findings for every mistake in a model, by name and property: 20 seconds or less."""
    return {mistake.name: findings_of(mistake) for mistake in MISTAKES if mistake.in_a_model}
