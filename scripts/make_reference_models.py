"""Make the two small models that `chapters.families.pretrained` is held to, and their outputs.

    python scripts/make_reference_models.py

Needs the package transformers, once: the folders are committed, so that chapters and tests can
compare without it. The weights are random; what counts is what transformers computes with them.
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parent.parent / "book" / "checkpoints"
VOCAB, WIDTH, HEADS, INNER, LAYERS, LONGEST = 31, 12, 3, 20, 2, 17  # no two axes alike


def unsettle(model: torch.nn.Module) -> None:
    """Random numbers everywhere: biases of 0 and gains of 1 would hide errors."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator) * 0.3
        parameter.data = noise + (parameter.dim() == 1)


@torch.no_grad()
def main() -> None:
    tokens = torch.randint(5, VOCAB, (5, 11), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([11, 7, 1, 10, 3])
    segments = (torch.arange(11) > 4).long().expand(5, 11).contiguous()
    mask = (torch.arange(11) < lengths[:, None]).long()
    bert_config = transformers.BertConfig(
        vocab_size=VOCAB, max_position_embeddings=LONGEST, hidden_size=WIDTH,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
    )  # fmt: skip
    bert = transformers.BertForMaskedLM(bert_config).eval()
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=LONGEST, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        n_inner=INNER, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    gpt2 = transformers.GPT2LMHeadModel(config).eval()
    for name, model in (("reference_bert", bert), ("reference_gpt2", gpt2)):
        unsettle(model)
        model.tie_weights()
        model.save_pretrained(FOLDER / name)
        (FOLDER / name / "generation_config.json").unlink(missing_ok=True)
        model.double()
        if name == "reference_bert":
            said = model(tokens, mask, segments, output_hidden_states=True)
            kept = {"lengths": lengths, "segments": segments, "hidden": said.hidden_states[-1]}
        else:
            said, kept = model(tokens), {}
        kept |= {"tokens": tokens, "logits": said.logits}
        about = {"made_by": f"transformers {transformers.__version__}, torch {torch.__version__}"}
        kept = {key: tensor.contiguous() for key, tensor in kept.items()}
        save_file(kept, FOLDER / name / "expected.safetensors", about)


if __name__ == "__main__":
    sys.exit(main())
