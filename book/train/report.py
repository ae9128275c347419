"""What `python -m train` tells: what it is about to train, and one summary at the end."""

from collections.abc import Sequence
from hashlib import sha256

from lib.metrics import bleu, exact_match
from train.folder import BEST, LOSSES
from train.run import Run, perplexity
from train.translator import Translator

EXAMPLES = 3


def facts(run: Run) -> list[tuple[str, str]]:
    """What is trained, on what, with how much: rows of a table."""
    o, c = run.options, run.corpus
    parameters = sum(p.numel() for p in run.model.parameters())
    layers = f"{o.layers}+{o.layers} layers, d_model {o.d_model}, {o.heads} heads, d_ff {o.d_ff}"
    left = f", {len(c.left_out):,} too long ones left out" if c.left_out else ""
    vocabularies = "one vocabulary" if o.share else "vocabularies"
    together = f"{run.ranks.world} processes, " if run.ranks.world > 1 else ""
    machine = f"{together}{run.device.type if together else run.device}"
    sizes = " and ".join(f"{len(vocab):,}" for vocab in run.vocabs[: 1 if o.share else 2])
    return [
        ("model", f"{layers}, {parameters:,} parameters"),
        ("", f"norm {o.norm}, positions {o.positions}, dropout {o.dropout}"),
        ("data", f"{len(c.train):,} pairs{left}; {len(c.valid):,} for validation"),
        ("", f"{vocabularies} of {sizes} {'sub-words' if o.subword else 'words'}"),
        ("training", f"{run.steps:,} updates, {run.stream.per_epoch:,} batches an epoch"),
        ("", f"schedule {o.schedule}, rate {o.lr:.2g}, smoothing {o.smoothing}, seed {o.seed}"),
        ("", f"{machine}, {'bfloat16' if run.autocast else 'float32'}"),
        *((("chosen" if not at else ""), reason) for at, reason in enumerate(run.reasons)),
    ]


def summarise(run: Run) -> str:
    """Score the best parameters on the test sentences, and tell all in one piece.

    Errors: ValueError for weights or losses in the folder that are not the run's own.
    """
    o, p = run.options, run.progress
    epochs = run.steps * o.accumulate / run.stream.per_epoch
    tokens = epochs * sum(len(run.vocabs[1].encode(x.target)) + 1 for x in run.corpus.train)
    speed = f"{tokens / max(p.seconds, 1e-9):,.0f} target tokens a second"
    rows = [
        *facts(run),
        ("took", f"{duration(p.seconds)} for {epochs:.1f} epochs, validation included: {speed}"),
        ("validation", f"loss {p.best_loss:.3f}, {perplexity(p.best_loss)}"),
        ("", f"the best, after update {p.best_step:,}: these parameters are scored"),
    ]
    translator = Translator(*run.best(), o.beam, o.alpha)
    run.log.check()
    how = f"beam {o.beam}, alpha {o.alpha}" if o.beam > 1 else "greedy"
    examples: list[str] = []
    for name, pairs in run.corpus.tests.items():
        found = translator.translate([pair.source for pair in pairs])
        said = [best[0].words for best in found]
        truths = [pair.target for pair in pairs]
        result = bleu(said, truths)
        rows += [
            (name, f"BLEU {result.score:.2f} on {len(pairs):,} sentences, {how}"),
            ("", f"{100 * exact_match(said, truths):.1f} % of them exactly as the reference"),
            ("", f"signature {result.signature}"),
        ]
        if not examples:
            shown = zip(pairs[:EXAMPLES], said, strict=False)
            examples = [f"  {' '.join(x.source)}\n  -> {' '.join(words)}\n" for x, words in shown]
    rows.append(("run", f"fingerprint {run.fingerprint}, of its sentences, words and options"))
    for name, path in (("weights", run.out / BEST), ("losses", run.out / LOSSES)):
        rows += [(name, str(path)), ("", f"SHA-256 {sha256(path.read_bytes()).hexdigest()}")]
    return "\n".join([table(rows), "", *examples]).rstrip() + "\n"


def duration(seconds: int | float) -> str:
    """3723 -> "1 h 2 min"; at most two units."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns of text, the first as wide as its longest entry."""
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)
