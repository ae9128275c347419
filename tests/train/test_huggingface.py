"""A folder with weights: whole and fitting, or an error that says what is wrong with it."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from chapters.families.pretrained import load_bert, load_gpt2
from tests.paths import BOOK
from train.huggingface import read_config, read_weights

BERT, GPT2 = (BOOK / "checkpoints" / f"reference_{name}" for name in ("bert", "gpt2"))


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(BERT, tmp_path / "bert")


def change(folder, function):
    weights = load_file(folder / "model.safetensors")
    save_file(function(weights), folder / "model.safetensors")


def test_reads_names_with_and_without_the_prefix_and_in_other_precisions(folder):
    wanted = {"embeddings.LayerNorm.weight": (12,), "embeddings.LayerNorm.bias": (12,)}
    weights = load_file(folder / "model.safetensors")
    names = ("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.bias")
    kept = {name: weights[name] for name in names}
    old = {
        "embeddings.LayerNorm.gamma": kept[names[0]],
        "embeddings.LayerNorm.beta": kept[names[1]],
    }
    for stored in (kept, old, {name: tensor.half() for name, tensor in kept.items()}):
        save_file(stored, folder / "model.safetensors")
        found = read_weights(folder, wanted, prefix="bert.", dtype=torch.float64)
        assert [t.dtype for t in found.values()] == [torch.float64] * 2
        for (_, shape), tensor, given in zip(
            wanted.items(), found.values(), kept.values(), strict=True
        ):
            assert tensor.shape == shape
            assert torch.allclose(tensor, given.double(), atol=1e-3)


def test_what_is_not_used_may_be_there_and_nothing_else(folder):
    change(folder, lambda w: w | {"bert.pooler.dense.weight": torch.zeros(12, 12)})
    load_bert(folder)
    change(folder, lambda w: w | {"bert.encoder.layer.0.extra.weight": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"no tensor encoder\.layer\.0\.extra\.weight, got one"):
        load_bert(folder)


def test_a_tensor_under_two_names(folder):
    name = "bert.embeddings.LayerNorm.weight"
    whole = load_file(folder / "model.safetensors")
    for other in (name.removeprefix("bert."), name.replace("weight", "gamma")):
        change(folder, lambda _, other=other: whole | {other: whole[name] + 1})
        with pytest.raises(ValueError, match=r"each tensor once, got .*Norm.* beside .*Norm"):
            load_bert(folder)


def in_shards(folder, n=3):
    """Put the weights of a folder into n files and an index, tensor by tensor in turn."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    files = [f"model-{i + 1:05}-of-{n:05}.safetensors" for i in range(n)]
    where = {name: files[i % n] for i, name in enumerate(weights)}
    for file in files:
        save_file({k: v for k, v in weights.items() if where[k] == file}, folder / file)
    write_index(folder, where)
    return where


def write_index(folder, where):
    index = {"metadata": {"total_size": 1}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(("start", "load"), [(BERT, load_bert), (GPT2, load_gpt2)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_shards_are_read_as_one_file_is(start, load, n, tmp_path):
    folder = shutil.copytree(start, tmp_path / "model")
    in_shards(folder, n)
    one, many = load(start).state_dict(), load(folder).state_dict()
    assert list(one) == list(many)
    assert all(torch.equal(one[name], many[name]) for name in one)


def test_one_file_is_read_before_shards(folder):
    (folder / "model.safetensors.index.json").write_text("nothing that could be read")
    load_bert(folder)


def test_shards_that_do_not_fit_their_index(folder):
    where = in_shards(folder)
    first, file = next(iter(where.items()))
    other = {name: f for name, f in where.items() if f != file}
    for wrong, message in (
        (
            where | {"extra": file},
            f"expected the tensors of {file} as the .* got none called extra",
        ),
        ({k: v for k, v in where.items() if k != first}, f"got one more called {first}"),
        (where | {first: next(iter(other.values()))}, f"called {first}"),
        (where | {first: "gone.safetensors"}, r"index\.json names, got no file gone\.safetensors"),
        (where | {first: "../model/x"}, "to name for each tensor a file of this folder, got {"),
        (where | {first: ".."}, "a file of this folder, got {"),
        (where | {first: str(folder / file)}, "a file of this folder, got {"),
        (where | {first: 7}, "a file of this folder, got {"),
        ({}, "a file of this folder, got {}"),
        ([first], "a file of this folder, got "),
        (None, "a file of this folder, got None"),
        (other, r"expected a tensor .*missing in all"),
    ):
        write_index(folder, wrong)
        with pytest.raises(ValueError, match=message):
            load_bert(folder)
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(ValueError, match=r"expected JSON in .*index\.json"):
        load_bert(folder)


def test_a_shard_that_is_missing_or_truncated(folder):
    where = in_shards(folder)
    write_index(folder, where)
    file = folder / where["bert.embeddings.LayerNorm.weight"]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"expected a whole file .*{file.name}, got"):
        load_bert(folder)
    file.unlink()
    with pytest.raises(ValueError, match=f"got no file {file.name}"):
        load_bert(folder)


def test_quantised_numbers_are_refused_with_a_remedy_that_helps(folder):
    """To fetch the same folder again would not."""
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    whole = load_file(folder / "model.safetensors")
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.uint8):
        change(folder, lambda _, dtype=dtype: whole | {name: whole[name].to(dtype)})
        with pytest.raises(ValueError, match="the same model in bfloat16") as caught:
            load_bert(folder)
        assert "again" not in str(caught.value)
        assert f"in {name.removeprefix('bert.')}" in str(caught.value)
    change(folder, lambda _: whole)
    config = json.loads((folder / "config.json").read_text())
    for said, shown in (({"quant_method": "fp8", "weight_block_size": [128, 128]}, "'fp8'"),
                        ({"bits": 4}, r"{'bits': 4}"), ("awq", "'awq'")):  # fmt: skip
        (folder / "config.json").write_text(json.dumps(config | {"quantization_config": said}))
        with pytest.raises(ValueError, match=f"quantization_config of {shown}; .* in bfloat16"):
            load_bert(folder)


def test_buffers_of_older_folders_are_passed_over(folder):
    before = load_bert(folder).state_dict()
    change(folder, lambda w: w | {"bert.embeddings.position_ids": torch.arange(13)[None]})
    after = load_bert(folder).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    shutil.rmtree(folder)
    shutil.copytree(GPT2, folder)
    before = load_gpt2(folder).state_dict()
    change(
        folder,
        lambda w: (
            {name.removeprefix("transformer."): tensor for name, tensor in w.items()}
            | {"h.0.attn.bias": torch.ones(1, 1, 7, 7), "h.0.attn.masked_bias": torch.tensor(-1e4)}
        ),
    )
    after = load_gpt2(folder).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("load", [load_bert, load_gpt2])
def test_no_folder(load, tmp_path):
    with pytest.raises(ValueError, match=r"expected a file .*config\.json, got No such file"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 100_000])
def test_a_config_that_is_none(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"expected (a )?JSON .*config\.json"):
        read_config(folder)


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"expected a file .*model\.safetensors, got no such file"):
        load_bert(folder)
    (folder / "pytorch_model.bin").touch()
    with pytest.raises(ValueError, match=r"got only pytorch_model\.bin"):
        load_bert(folder)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999])
def test_a_truncated_file(folder, share):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"expected a whole file .*model\.safetensors"):
        load_bert(folder)


def test_a_tensor_missing_or_of_another_shape(folder):
    name = "bert.encoder.layer.1.attention.output.dense.weight"
    change(folder, lambda w: w | {name: w[name][:7].clone()})
    with pytest.raises(ValueError, match=r"dense\.weight of shape \(12, 12\), got \(7, 12\)"):
        load_bert(folder)
    change(folder, lambda w: {k: v for k, v in w.items() if k != name})
    with pytest.raises(ValueError, match=r"expected a tensor encoder\.layer\.1\.attention\.output"):
        load_bert(folder)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none(folder, bad):
    name = "bert.embeddings.position_embeddings.weight"
    change(folder, lambda w: w | {name: torch.full_like(w[name], bad)})
    with pytest.raises(ValueError, match=r"finite real numbers in embeddings\.position_embeddings"):
        load_bert(folder)
    change(folder, lambda w: w | {name: torch.ones_like(w[name], dtype=torch.long)})
    with pytest.raises(ValueError, match="finite real numbers"):
        load_bert(folder)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("make", [os.mkdir, lambda path: os.mkfifo(path)])
def test_no_file_but_something_else(folder, name, make):
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(ValueError, match=f"expected a file .*{name}, got"):
        load_bert(folder)


@pytest.mark.parametrize(
    ("start", "load", "changes", "message"),
    [
        (BERT, load_bert, {"num_hidden_layers": 10**9}, "expected 1,000,000,000 layers"),
        (GPT2, load_gpt2, {"n_layer": 10**9}, "expected 1,000,000,000 layers"),
        (BERT, load_bert, {"hidden_size": 3 * 10**15}, "expected smaller sizes, got"),
        (GPT2, load_gpt2, {"n_embd": 3 * 10**30}, "expected smaller sizes, got"),
        (BERT, load_bert, {"vocab_size": 10**9}, r"of shape \(1000000000, 12\), got"),
        (GPT2, load_gpt2, {"n_positions": 10**9}, r"of shape \(1000000000, 12\), got"),
    ],
)
def test_sizes_are_compared_before_anything_is_built(start, load, changes, message, tmp_path):
    copy = shutil.copytree(start, tmp_path / "model")
    config = json.loads((copy / "config.json").read_text()) | changes
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        load(copy)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda weight: weight * float("nan"),
        lambda weight: weight.long(),
        lambda weight: weight.to(torch.float8_e4m3fn),
        lambda weight: weight.double() * 1e300,  # finite there, and not in float32
    ],
)
def test_numbers_that_cannot_be_used(folder, spoil):
    name = "bert.embeddings.LayerNorm.weight"
    change(folder, lambda w: w | {name: spoil(w[name])})
    with pytest.raises(ValueError, match=r"expected finite real numbers.* LayerNorm|in embeddings"):
        load_bert(folder)
