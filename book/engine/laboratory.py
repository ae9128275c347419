"""Nine small Transformers to train in the page: tasks, settings, and the same steps by torch.

What a setting may be stands here once: the page gets it as data. The page trains in a worker, with
the engine in `engine/`, which it loads when a reader first presses Train.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from traitlets import Bool, Int

from engine.replay import Replay
from engine.text import kernels, worker_text
from widgets import domain
from widgets.base import BookWidget, static_paragraph, static_table

HIGHEST_SEED = 9999
MOST_STEPS = 1200  # of any laboratory


class Setting(NamedTuple):
    """What a reader can set: its label, its options, and words for options that need them."""

    label: str
    options: tuple[Any, ...]
    words: Mapping[Any, str] = {}

    def word(self, value: Any) -> str:
        """An option as it is shown."""
        if isinstance(value, bool):
            return self.words.get(value, "on" if value else "off")
        return self.words.get(value, f"{value:g}" if isinstance(value, float) else str(value))


class Task(NamedTuple):
    """One laboratory: what it trains, its settings with the start, and settings worth comparing.

    measure says what the accuracy counts. advised is the highest rate on offer with which all seeds
    from 0 to 9 learn the task, where the other settings suit it: it was measured by
    `benchmarks/laboratory_settings.py`. asks is the label, the hint and an example for a line of
    the reader's own, or empty; where it is composed, its words are buttons that take them away,
    and the vocabulary stands below them.
    """

    title: str
    lead: str
    settings: Mapping[str, Setting]
    start: Mapping[str, Any]
    presets: tuple[tuple[str, Mapping[str, Any]], ...]
    measure: str
    advised: float
    asks: tuple[str, ...] = ()
    composed: bool = False


HEADS = Setting("Heads", (1, 2, 4))
WIDTH = Setting("d_model", (16, 32, 64))
LAYERS = Setting("Layers", (1, 2, 3))
RATE = Setting("Learning rate", (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0))
COMMON = {"n_heads": HEADS, "d_model": WIDTH, "lr": RATE}
SCHEMES = Setting(
    "Positions", ("none", "learned", "sinusoidal", "rotary", "alibi"), {"alibi": "ALiBi"}
)
SENSES = {  # of every laboratory with the words of two meanings
    "n_heads": HEADS,
    "d_model": WIDTH,
    "lr": Setting("Learning rate", (0.001, 0.002, 0.005, 0.01, 0.02)),
}
READS = ("Your own sentence", "Write it, or change it below: press a word to take it away")


def _senses(attention: str, **others: Any) -> dict[str, Any]:
    return {"attention": attention, "unsure": True, "filled": False, "updates": 300, **others}


def _ordered(positions: str, wanted: str = "roles", causal: bool = False) -> dict[str, Any]:
    return {"wanted": wanted, "positions": positions, "causal": causal}


def _depth(norm: str, n_layers: int, warmup: int = 0, lr: float = 0.01) -> dict[str, Any]:
    return {"norm": norm, "n_layers": n_layers, "warmup": warmup, "lr": lr}


TASKS: dict[str, Task] = {
    "senses": Task(
        "What does bank mean here?",
        "One layer of self-attention, without positions, translates the words that have two "
        "meanings into German: bank is Bank (money) or Ufer (river). Where no word of the sentence "
        "settles the meaning, the answer is ?.",
        {
            "attention": Setting(
                "Each word attends to",
                ("itself", "equal", "chosen"),
                {
                    "itself": "itself alone",
                    "equal": "all words alike",
                    "chosen": "what it chooses",
                },
            ),
            "unsure": Setting(
                "Sentences without a clue",
                (True, False),
                {True: "are answered ?", False: "are left out"},
            ),
            "filled": Setting(
                "Training sentences",
                (False, True),
                {False: "3 to 17 words", True: "filled up to 32 words"},
            ),
            "updates": Setting("Training steps", (300, 1200)),
            **SENSES,
        },
        {"attention": "chosen", "unsure": True, "filled": False, "updates": 300}
        | {"n_heads": 2, "d_model": 32, "lr": 0.005},
        (
            ("Each word by itself", _senses("itself")),
            ("All words alike", _senses("equal")),
            ("All words alike, long sentences", _senses("equal", filled=True, updates=1200)),
            ("One head", _senses("chosen", n_heads=1)),
            ("Two heads", _senses("chosen", n_heads=2)),
            ("One head, always a clue", _senses("chosen", unsure=False, n_heads=1)),
        ),
        "Ambiguous words translated correctly",
        0.02,
        (*READS, "bat bites man in cave"),
        composed=True,
    ),
    "senses_masked": Task(
        "What does bank mean, read from left to right?",
        "The same layer of self-attention translates the same words of two meanings. The causal "
        "mask is the only switch: with it, a word sees itself and the words before it.",
        {"causal": Setting("Causal mask", (False, True)), **SENSES},
        {"causal": False, "n_heads": 4, "d_model": 32, "lr": 0.005},
        (
            ("Without the mask", {"causal": False}),
            ("With the causal mask", {"causal": True}),
        ),
        "Ambiguous words translated correctly",
        0.02,
        (*READS, "bat bites man in cave"),
        composed=True,
    ),
    "senses_ordered": Task(
        "Who bites whom, in the same sentences?",
        "The same layer reads the same sentences, and has to name the one who acts (who), the act, "
        "and the one it is done to (whom), or, as in chapter 4, what a word means. It is tested "
        "on sentences that it was not trained on, each with who and whom exchanged too.",
        {
            "wanted": Setting(
                "The model names",
                ("meanings", "roles"),
                {"meanings": "what a word means", "roles": "who does what to whom"},
            ),
            "positions": SCHEMES,
            "causal": Setting("Causal mask", (False, True)),
            **SENSES,
        },
        {"wanted": "roles", "positions": "none", "causal": False}
        | {"n_heads": 2, "d_model": 32, "lr": 0.005},
        (
            ("Meanings, no positions", _ordered("none", wanted="meanings")),
            ("Roles, no positions", _ordered("none")),
            ("Roles, sinusoidal", _ordered("sinusoidal")),
            ("Roles, ALiBi", _ordered("alibi")),
            ("Roles, no positions, causal mask", _ordered("none", causal=True)),
        ),
        "Words named correctly",
        0.02,
        (*READS, "bat bites man in cave"),
        composed=True,
    ),
    "order": Task(
        "Does the model know the order of the words?",
        "An encoder names the role of each word (who, act, whom) in sentences of three words. It "
        "is tested on sentences that it was not trained on, each with its nouns swapped too.",
        {
            "positions": Setting("Positions", ("none", "learned")),
            "causal": Setting("Causal mask", (False, True)),
            "n_layers": LAYERS,
            **COMMON,
        },
        {"positions": "none", "causal": False, "n_layers": 2, "n_heads": 4, "d_model": 32}
        | {"lr": 0.003},
        (
            ("Without positions", {"positions": "none", "causal": False}),
            ("With positions", {"positions": "learned", "causal": False}),
            ("No positions, but a causal mask", {"positions": "none", "causal": True}),
        ),
        "Roles right",
        0.01,
        (
            "Your own sentence of three words",
            "Two of dog, man, cat, bird, child, horse, cow, goat, and between them bites, sees, "
            "follows or likes",
            "man bites dog",
        ),
    ),
    "neighbours": Task(
        "How many heads for two neighbours?",
        "Twelve digits stand on a ring. One attention layer with a linear layer behind it names, "
        "at each position, the digit on the left and the digit on the right.",
        {
            "n_heads": Setting("Heads", (1, 2, 4, 8)),
            "d_model": WIDTH,
            "d_k": Setting("d_k", (2, 4, 8, 16, 32)),
            "lr": RATE,
        },
        {"n_heads": 1, "d_model": 32, "d_k": 8, "lr": 0.01},
        (
            ("1 head", {"n_heads": 1, "d_k": 8}),
            ("1 head of d_k 32", {"n_heads": 1, "d_k": 32}),
            ("2 heads", {"n_heads": 2, "d_k": 8}),
            ("4 heads", {"n_heads": 4, "d_k": 8}),
        ),
        "Both neighbours right",
        0.03,
        ("Your own ring of twelve digits", "Twelve digits", "314159265358"),
    ),
    "future": Task(
        "A language model that sees the future",
        "A language model learns to predict the next word of sentences that a small grammar makes. "
        "Then it writes sentences of its own, word by word.",
        {
            "causal": Setting("Causal mask", (True, False), {False: "forgotten"}),
            "n_layers": LAYERS,
            **COMMON,
        },
        {"causal": True, "n_layers": 2, "n_heads": 4, "d_model": 32, "lr": 0.01},
        (
            ("With the causal mask", {"causal": True}),
            ("The mask forgotten", {"causal": False}),
        ),
        "Written sentences that the grammar accepts",
        0.03,
        (
            "Your own prefix",
            "Words such as the, a, two, small, dog, dogs, that, sees, see",
            "the small dogs that",
        ),
    ),
    "depth": Task(
        "How deep can it be?",
        "A stack of layers sorts eight digits by size. A shallow stack learns that in a few "
        "seconds. How deep can it be, with the norm before each sub-layer or after the sum?",
        {
            "norm": Setting("Norm", ("pre", "post"), {"pre": "pre-norm", "post": "post-norm"}),
            "n_layers": Setting("Layers", (1, 2, 4, 6, 8, 12)),
            "warmup": Setting("Warm-up steps", (0, 30, 100, 200)),
            **COMMON,
        },
        {"norm": "post", "n_layers": 2, "warmup": 0, "n_heads": 4, "d_model": 32, "lr": 0.01},
        (
            ("Post-norm, 2 layers", _depth("post", 2)),
            ("Post-norm, 6 layers", _depth("post", 6)),
            ("Pre-norm, 6 layers", _depth("pre", 6)),
            ("Post-norm, 6 layers, warm-up", _depth("post", 6, warmup=100)),
            ("Post-norm, 6 layers, smaller rate", _depth("post", 6, lr=0.003)),
            ("Pre-norm, 12 layers", _depth("pre", 12)),
        ),
        "Digits right",
        0.01,
        ("Your own eight digits", "Eight digits", "31415926"),
    ),
    "longer": Task(
        "Trained short, read long",
        "A language model learns to predict the next letter in windows of 32 letters. Then it "
        "reads windows of 128: how good is it at positions that it has never seen?",
        {
            "positions": SCHEMES,
            "n_layers": Setting("Layers", (1, 2)),
            **COMMON,
        },
        {"positions": "sinusoidal", "n_layers": 1, "n_heads": 4, "d_model": 64, "lr": 0.01},
        (
            ("None", {"positions": "none"}),
            ("Learned", {"positions": "learned"}),
            ("Sinusoidal", {"positions": "sinusoidal"}),
            ("Rotary", {"positions": "rotary"}),
            ("ALiBi", {"positions": "alibi"}),
        ),
        "Next letters right beyond position 32",
        0.03,
    ),
    "numbers": Task(
        "Train a translator from nothing",
        "A Transformer learns to write numbers in English words. It is tested on numbers that it "
        "was not trained on, and translates yours as it learns.",
        {"longest": Setting("Most digits", (3, 4, 6)), "n_layers": LAYERS, **COMMON},
        {"longest": 4, "n_layers": 1, "n_heads": 4, "d_model": 32, "lr": 0.01},
        (
            ("Up to 999", {"longest": 3}),
            ("Up to 9999", {"longest": 4}),
            ("Up to 999999", {"longest": 6}),
        ),
        "Numbers wholly right",
        0.03,
        ("Your own number", "A whole number in digits", "342"),
    ),
}


def _options(name: str) -> Callable[[Any], tuple[Any, ...]]:
    """What the widget's task lets a setting be: None alone where the task does not have it."""

    def options(widget: Any) -> tuple[Any, ...]:
        own = TASKS[widget.task].settings
        return own[name].options if name in own else (None,)

    return options


class TrainsInPage(BookWidget):
    """A widget whose page trains models; to a notebook the kernel sends what it needs for that."""

    def __init__(self, **traits: Any):
        super().__init__(**traits)
        self.on_msg(self._answer)

    def _answer(self, _: Any, content: Any, buffers: Any) -> None:
        """Send the engine to a notebook's front end, or run torch from the same start; the answer
        has the number of the question.
        """
        question = {"id": content.get("id")}
        if content.get("wanted") == "engine":
            self.send(question | {"engine": worker_text()}, buffers=[kernels()])
        elif content.get("wanted") == "torch":
            try:
                self.send(question | {"torch": run_with_torch(content, buffers)})
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                self.send(question | {"torch": [], "problem": str(error)})


class Laboratory(TrainsInPage):
    """Train a small Transformer in the page, and compare what its settings change.

    Args: task, a name of `TASKS`; seed, a whole number from 0 to 9999; any setting of the task, one
        of its options. What is not given is the task's start.
    Errors: ValueError for a task that does not exist, a setting that the task does not have, or a
        value that is not among its options.
    """

    _module = "laboratory"
    _positional = 1
    task = domain.Fixed("neighbours")
    about = domain.Fixed()
    n_heads = domain.OneOf(_options("n_heads"))
    d_model = domain.OneOf(_options("d_model"))
    d_k = domain.OneOf(_options("d_k"))
    n_layers = domain.OneOf(_options("n_layers"))
    attention = domain.OneOf(_options("attention"))
    unsure = Bool()
    filled = Bool()
    updates = domain.OneOf(_options("updates"))
    wanted = domain.OneOf(_options("wanted"))
    positions = domain.OneOf(_options("positions"))
    norm = domain.OneOf(_options("norm"))
    causal = Bool()
    warmup = domain.OneOf(_options("warmup"))
    longest = domain.OneOf(_options("longest"))
    lr = domain.OneOf(_options("lr"))
    seed = Int(0, min=0, max=HIGHEST_SEED)
    # Where a link asks for it: the page trains to this step at once; 0 waits for Train.
    step = Int(0, min=0, max=MOST_STEPS)

    def __init__(self, task: str = "neighbours", *, seed: int = 0, **settings: Any):
        if task not in TASKS:
            domain.refuse("task", f"one of {', '.join(TASKS)}", repr(task))
        found = TASKS[task]
        for name in settings:
            if name not in found.settings:
                if not self.has_trait(name):
                    raise TypeError(f"Laboratory got unexpected arguments: {[name]}")
                domain.refuse(
                    name,
                    f"a setting of the task {task!r}: {', '.join(found.settings)}",
                    repr(settings[name]),
                )
        super().__init__(task=task, about=_about(found), **{**found.start, **settings}, seed=seed)

    def declared(self) -> dict[str, Any]:
        """The domains of the task's settings, of the seed and of a step."""
        own = {"seed", "step", *TASKS[self.task].settings}
        return {name: found for name, found in super().declared().items() if name in own}

    def data(self) -> dict[str, Any]:
        """The task, what the page must know of it, and its settings."""
        own = {"task", "about", "domains", "seed", "step", *TASKS[self.task].settings}
        return {name: value for name, value in super().data().items() if name in own}

    def settings(self) -> dict[str, Any]:
        """The settings of the task as they are now, without the seed."""
        return {name: getattr(self, name) for name in TASKS[self.task].settings}

    def summary(self) -> str:
        words = [
            f"{name} {value}" for name, value in (self.settings() | {"seed": self.seed}).items()
        ]
        return f"Laboratory: {self.task}, {', '.join(words)}"

    def static_html(self) -> str:
        """What the laboratory trains, and for each setting its start and its options."""
        task = TASKS[self.task]
        rows = [
            (one.label, one.word(getattr(self, name)), ", ".join(map(one.word, one.options)))
            for name, one in task.settings.items()
        ]
        rows.append(("Seed", str(self.seed), f"0 to {HIGHEST_SEED}"))
        caption = f"{task.title}: what the page trains, and what a reader can set"
        return static_paragraph(task.lead) + static_table(caption, ("", "start", "options"), rows)


def run_with_torch(record: Mapping[str, Any], buffers: Sequence[Any]) -> list[float]:
    """Take the steps of a run of the page again, with torch.

    Args: record, the run's design, options, parameters (name and shape of each) and batches (rows,
        and the name and length of each list); buffers, all parameters as float32 numbers, and all
        lists of the batches as int32 numbers, in that order.
    Returns: the loss before each step, up to the first that is no number.
    Errors: ValueError for buffers of another size, and what `engine.replay.Replay` refuses.
    """
    numbers = torch.frombuffer(bytearray(buffers[0]), dtype=torch.float32)
    whole = torch.frombuffer(bytearray(buffers[1]), dtype=torch.int32)
    sizes = [math.prod(one["shape"]) for one in record["parameters"]]
    lengths = [length for batch in record["batches"] for _, length in batch["lists"]]
    for name, got, wanted in (
        ("parameters", len(numbers), sum(sizes)),
        ("batches", len(whole), sum(lengths)),
    ):
        if got != wanted:
            raise ValueError(f"expected {wanted} numbers of {name}, got {got}")
    parameters = [
        {**one, "data": data}
        for one, data in zip(record["parameters"], numbers.split(sizes), strict=True)
    ]
    lists = iter(whole.split(lengths))
    batches = [
        {"rows": batch["rows"], **{name: next(lists) for name, _ in batch["lists"]}}
        for batch in record["batches"]
    ]
    losses = Replay(record["design"], record["options"], parameters).run(batches)
    return list(itertools.takewhile(math.isfinite, losses))


def _about(task: Task) -> dict[str, Any]:
    """What the page must know of a task: plain lists and text."""
    settings = [
        {
            "name": name,
            "label": one.label,
            "options": list(one.options),
            "words": [one.word(value) for value in one.options],
        }
        for name, one in task.settings.items()
    ]
    return {
        "title": task.title,
        "lead": task.lead,
        "settings": settings,
        "presets": [[label, dict(changes)] for label, changes in task.presets],
        "measure": task.measure,
        "advised": task.advised,
        "asks": list(task.asks),
        **({"composed": True} if task.composed else {}),
    }
