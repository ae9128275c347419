"""Weights from a folder in Hugging Face's layout: checked by name and shape before any is used.

Such a folder holds `config.json`, the sizes, and `model.safetensors`, the numbers. Nothing here
knows a model; `lib.pretrained` says which names it expects. Nothing is fetched from anywhere.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CONFIG, WEIGHTS = "config.json", "model.safetensors"
REMEDY = "fetch the folder again, whole"


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read what a folder's config.json says of its model.

    Errors: ValueError for a file that is missing or is not a JSON object.
    Source: ours. Chapter: 14 (One design, three families).
    """
    path = Path(folder) / CONFIG
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"expected a file {path}, got {error.strerror}; {REMEDY}") from error
    except ValueError as error:
        raise ValueError(f"expected JSON in {path}, got {error}; {REMEDY}") from error
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object in {path}, got {found!r}; {REMEDY}")
    return found


def read_weights(
    folder: str | Path,
    wanted: Mapping[str, tuple[int, ...]],
    *,
    prefix: str,
    unused: Iterable[str] = (),
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Read the tensors of `wanted`, by name and shape, from a folder's model.safetensors.

    All names and shapes are compared before the first number is read.

    Args: prefix, what the names in the file may begin with besides; unused, beginnings and ends of
        names that may be in the file and are left there; dtype, what the tensors are turned to.
    Returns: the tensors under the names of `wanted`.
    Errors: ValueError for a file that is missing or broken, a tensor that is missing, left over,
        stored twice, of another shape, or not of real numbers.
    Source: ours. Chapter: 14 (One design, three families).
    """
    from safetensors import SafetensorError, safe_open  # only who loads weights needs safetensors

    path = Path(folder) / WEIGHTS
    if not path.is_file():
        others = (
            sorted(p.name for p in Path(folder).glob("*model*")) if path.parent.is_dir() else []
        )
        got = f"only {', '.join(others)}" if others else "no such file"
        raise ValueError(f"expected a file {path}, got {got}; take a model that is stored as one")
    try:
        with safe_open(str(path), "pt") as file:
            stored = list(file.keys())
            names = {_plain_name(name, prefix): name for name in stored}
            twice = sorted(set(stored) - set(names.values()))
            if twice:
                raise ValueError(
                    f"{path}: expected each tensor once, got {twice[0]} beside "
                    f"{names[_plain_name(twice[0], prefix)]}; {REMEDY}"
                )
            shapes = {
                plain: tuple(file.get_slice(name).get_shape()) for plain, name in names.items()
            }
            _compare(path, shapes, dict(wanted), tuple(unused))
            found = {plain: file.get_tensor(names[plain]) for plain in wanted}
    except SafetensorError as error:
        raise ValueError(f"expected a whole file {path}, got {error}; {REMEDY}") from error
    for name, tensor in found.items():
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise ValueError(f"{path}: expected finite real numbers in {name}; {REMEDY}")
    return {name: tensor.to(dtype) for name, tensor in found.items()}


def _plain_name(name: str, prefix: str) -> str:
    """Without the prefix of a model with a head; with the newer names of a norm's two vectors."""
    name = name.removeprefix(prefix)
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        name = name.replace(old, new)
    return name


def _compare(
    path: Path,
    found: dict[str, tuple[int, ...]],
    wanted: dict[str, tuple[int, ...]],
    unused: tuple[str, ...],
) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"{path}: expected a tensor {missing[0]}, got none ({len(missing)} missing in all); "
            "is it the model that config.json describes?"
        )
    left = [
        name
        for name in found
        if name not in wanted and not name.startswith(unused) and not name.endswith(unused)
    ]
    if left:
        raise ValueError(
            f"{path}: expected no tensor {left[0]}, got one ({len(left)} left over in all); "
            "the model has a part that would be lost"
        )
    for name, shape in wanted.items():
        if found[name] != shape:
            raise ValueError(
                f"{path}: expected {name} of shape {shape}, got {found[name]}; "
                "is it the model that config.json describes?"
            )
