"""What is traced of a forward pass: steps that the model has, and a model left as it was."""

from chapters.transformer.tracing import stages_of, trace_sentence
from lib.data import Vocabulary
from lib.transformer import Config, Transformer


def test_tracing_leaves_the_model_as_it_was():
    vocab = Vocabulary(["a", "b", "c"])
    config = Config(len(vocab), d_model=6, n_heads=3, d_ff=5, n_layers=1, norm="pre")
    model = Transformer(config).eval()
    one = trace_sentence(model, ("a", "b"), vocab, vocab, max_length=3, k=2)
    assert one["source"] == ["a", "b", "<eos>"]
    assert len(one["lengths"]) == len(one["changes"]) == len(stages_of(1, True))
    hooks = [h for m in model.modules() for h in (*m._forward_hooks, *m._forward_pre_hooks)]
    assert hooks == []


def test_stages_are_those_of_the_model():
    model = Transformer(Config(29, d_model=6, n_heads=3, d_ff=5, n_layers=3, norm="pre"))
    for stage in stages_of(3, True):
        if stage["kind"] != "embed":
            model.get_submodule(stage["name"])
