"""Switch heads of a trained translator off, live: its translations and accuracy without them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traitlets import Bunch, Enum, Unicode, validate

from chapters.multi_head.ablation import layer_codes
from lib.data import Pair, Vocabulary
from lib.transformer import Transformer
from widgets import domain
from widgets.base import static_table
from widgets.domain import quantise
from widgets.model_widget import ModelWidget
from widgets.packing import PackedModel, pack_model

TITLES = {"e": "Encoder self-attention", "d": "Decoder self-attention", "c": "Cross-attention"}
MODES = ("zero", "mean")


class HeadAblation(ModelWidget):
    """Switch off any heads of a translator; see a translation, and the accuracy over sentences.

    The page computes both with the model itself, which it loads when the reader asks for it.

    Args: packed, the model; pairs, the sentences that accuracy is counted over; results, what was
        measured beforehand, as experiments/head_ablation.py records it: "means", the mean output of
        each head by layer, "ablations", exact match without each head and each layer, "whole" and
        "sentences". ready, sentences that are offered to try. off, the heads that are off at the
        start, such as "e2.3_c1.1"; mode, "zero" or "mean"; sentence, the pair that is shown.
    Errors: ValueError for words or heads that the model does not have.
    Source: Michel, Levy and Neubig 2019, made to move.
    """

    _module = "head_ablation"
    layers = domain.Fixed()  # {code, name, kind, number}
    n_heads = domain.Fixed()
    sentences = domain.Fixed()  # [source, target], each a text of tokens
    means = domain.Fixed()  # for each layer the numbers of all heads side by side
    recorded = domain.Fixed()
    off = Unicode()
    mode = Enum(MODES, "zero")
    sentence = domain.Place()

    def __init__(
        self,
        packed: PackedModel,
        pairs: Sequence[Pair],
        results: Mapping[str, Any],
        *,
        ready: Sequence[str] = (),
        **start: Any,
    ):
        config = packed.header["config"]
        codes = layer_codes(config["n_layers"])
        words = {side: packed.header[f"{side}_words"] for side in ("source", "target")}

        def sentence(pair: Pair, where: str) -> list[str]:
            for side in words:
                if unknown := set(getattr(pair, side)) - set(words[side]):
                    domain.refuse(f"{where}.{side}", "words of the model", sorted(unknown))
            return [" ".join(pair.source), " ".join(pair.target)]

        super().__init__(
            packed,
            ready,
            layers=[
                {"code": code, "name": name, "kind": TITLES[code[0]], "number": int(code[1:])}
                for code, name in codes.items()
            ],
            n_heads=config["n_heads"],
            sentences=[sentence(pair, f"pairs[{i}]") for i, pair in enumerate(pairs)],
            means={  # the heads side by side
                code: [x for row in quantise(results["means"][code], 4) for x in row]
                for code in codes
            },
            recorded={
                "sentences": results["sentences"],
                "whole": quantise(results["whole"]["exact"]),
                **{mode: _exact(results["ablations"][mode]) for mode in MODES},
            },
            **start,
        )

    @classmethod
    def from_model(
        cls,
        model: Transformer,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        results: Mapping[str, Any],
        **more: Any,
    ) -> "HeadAblation":
        """The widget for a model and its vocabularies; results and the rest as above."""
        return cls(pack_model(model, source_vocab, target_vocab), pairs, results, **more)

    @validate("off")
    def _heads(self, proposal: Bunch) -> str:
        """The heads that are off: codes with _ between them, in the order of the model."""
        known = [f"{layer['code']}.{h + 1}" for layer in self.layers for h in range(self.n_heads)]
        value = proposal.value
        asked = value.split("_") if value else []
        if asked != [head for head in known if head in asked]:
            expected = f"heads such as {known[0]}_{known[-1]}, in this order"
            domain.refuse("off", expected, repr(value))
        return value

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "sentence", len(self.sentences)  # the reader's own one has the last number

    def summary(self) -> str:
        heads = len(self.layers) * self.n_heads
        return f"HeadAblation: {heads} heads of a translator, {len(self.sentences)} sentences"

    def static_html(self) -> str:
        rows = []
        for mode in MODES:
            single, whole = (self.recorded[mode][part] for part in ("single", "layers"))
            for layer in self.layers:
                code = layer["code"]
                each = [single[f"{code}.{h + 1}"] for h in range(self.n_heads)]
                title = f"{layer['kind']}, layer {layer['number']}, {mode} ablation"
                rows.append((title, *(f"{x:.3f}" for x in (*each, whole[code]))))
        heads = [f"without head {h + 1}" for h in range(self.n_heads)]
        caption = (
            f"Fraction of {self.recorded['sentences']:,} held-out sentences translated exactly; "
            f"with all heads {self.recorded['whole']:.3f}"
        )
        return static_table(caption, ("layer", *heads, "without all"), rows)


def _exact(ablation: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Exact match without each head and without each layer."""
    return {
        part: {code: quantise(figures["exact"]) for code, figures in ablation[part].items()}
        for part in ("single", "layers")
    }
