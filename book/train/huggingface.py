"""A model's folder in Hugging Face's layout: `config.json` and `model.safetensors`, read with care.

Names and shapes are checked before any number is used, and nothing is fetched from anywhere. Which
names and settings a design has, its own loader knows; here is what all loaders need."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CONFIG, WEIGHTS = "config.json", "model.safetensors"
REAL = ("F16", "BF16", "F32", "F64")  # what safetensors calls the types of real numbers
DESCRIBED = "is it the model that config.json describes?"
REMEDY = "fetch the folder again, whole"


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read what a folder's config.json says of its model.

    Errors: ValueError for a file that is missing or is not a JSON object.
    """
    path = Path(folder) / CONFIG
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ValueError(f"expected a file {path}, got a folder, a pipe or a device; {REMEDY}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"expected a file {path}, got {error.strerror}; {REMEDY}") from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"expected JSON in {path}, got {error}; {REMEDY}") from error
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object in {path}, got {found!r}; {REMEDY}")
    return found


def without_memory(folder: str | Path, n_blocks: int, make: Callable[[], Any]) -> Any:
    """A model with names and shapes and no numbers, to be compared with a folder's file.

    Args: n_blocks, the layers or experts that the config asks for, each of which has a tensor.
    Errors: ValueError for more blocks than the file has tensors, or for impossible sizes.
    """
    from safetensors import SafetensorError, safe_open  # only who loads weights needs safetensors

    path = _weights_file(folder)
    try:
        with safe_open(str(path), "pt") as file:
            n_tensors = len(file.keys())
    except SafetensorError as error:
        raise ValueError(f"expected a whole file {path}, got {error}; {REMEDY}") from error
    if n_blocks > n_tensors:
        got = f"{n_tensors} tensors"
        raise ValueError(
            f"{path}: expected {n_blocks:,} layers and experts, got {got}; {DESCRIBED}"
        )
    try:
        with torch.device("meta"):
            return make()
    except (ArithmeticError, RuntimeError, TypeError) as error:  # too many entries to count
        raise ValueError(f"{config_file(folder)}: expected smaller sizes, got {error}") from error


def read_weights(
    folder: str | Path,
    wanted: Mapping[str, tuple[int, ...]],
    *,
    prefix: str,
    unused: Iterable[str] = (),
    copies: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Read the tensors of `wanted`, by name and shape, from a folder's model.safetensors.

    All names and shapes are compared before the first number is read.

    Args:
        folder: where the file is.
        wanted: names and shapes.
        prefix: what the names in the file may begin with besides.
        unused: prefixes and suffixes of names that may be in the file and are left there.
        copies: names that the file may give to a tensor once more, each with its name in `wanted`,
            for what is tied.
        dtype: that of the tensors returned.
    Returns: the tensors under the names of `wanted`.
    Errors: ValueError for a file that is missing or broken, a tensor that is missing, left over,
        stored twice, of another shape, or not of real numbers, and for a copy that is another one.
    """
    from safetensors import SafetensorError, safe_open  # only who loads weights needs safetensors

    path = _weights_file(folder)
    try:
        with safe_open(str(path), "pt") as file:
            stored: dict[str, str] = {}  # from plain names to those in the file
            for name in file.keys():  # noqa: SIM118, it is no mapping
                plain = _plain_name(name, prefix)
                if plain in stored:
                    raise ValueError(
                        f"{path}: expected each tensor once, got {name} beside {stored[plain]}; "
                        f"{REMEDY}"
                    )
                stored[plain] = name
            slices = {plain: file.get_slice(name) for plain, name in stored.items()}
            shapes = {plain: found.get_shape() for plain, found in slices.items()}
            copies = {name: of for name, of in (copies or {}).items() if name in stored}
            _compare(path, shapes, wanted, (*unused, *copies))
            kinds = {plain: slices[plain].get_dtype() for plain in wanted}
            if others := [plain for plain, kind in kinds.items() if kind not in REAL]:
                got = f"{kinds[others[0]]} in {others[0]}"
                raise ValueError(f"{path}: expected finite real numbers, got {got}; {REMEDY}")
            found = {plain: file.get_tensor(stored[plain]).to(dtype) for plain in wanted}
            for name, of in copies.items():
                if not torch.equal(file.get_tensor(stored[name]).to(dtype), found[of]):
                    raise ValueError(
                        f"{path}: expected {name} to be {of}, as config.json says by "
                        "tie_word_embeddings, got another matrix, which would be lost; take a "
                        "model whose two are tied"
                    )
    except SafetensorError as error:
        raise ValueError(f"expected a whole file {path}, got {error}; {REMEDY}") from error
    for name, tensor in found.items():
        if not tensor.isfinite().all():
            got = f"NaN or what {dtype} cannot hold"
            raise ValueError(f"{path}: expected finite real numbers in {name}, got {got}; {REMEDY}")
    return found


def _weights_file(folder: str | Path) -> Path:
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        others = sorted(other.name for other in Path(folder).glob("*model*"))
        got = f"only {', '.join(others)}" if others else "no such file"
        raise ValueError(f"expected a file {path}, got {got}; take a model that is stored as one")
    return path


def _plain_name(name: str, prefix: str) -> str:
    """Without the prefix of a model with a head; with the newer names of a norm's two vectors."""
    name = name.removeprefix(prefix).replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def _compare(
    path: Path,
    found: Mapping[str, Sequence[int]],
    wanted: Mapping[str, tuple[int, ...]],
    unused: tuple[str, ...],
) -> None:
    if missing := [name for name in wanted if name not in found]:
        got = f"none ({len(missing)} missing in all)"
        raise ValueError(f"{path}: expected a tensor {missing[0]}, got {got}; {DESCRIBED}")
    extra = [name for name in found if name not in wanted]
    if left := [name for name in extra if not (name.startswith(unused) or name.endswith(unused))]:
        raise ValueError(
            f"{path}: expected no tensor {left[0]}, got one ({len(left)} left over in all); "
            "the model has a part that would be lost"
        )
    for name, shape in wanted.items():
        if (came := tuple(found[name])) != shape:
            raise ValueError(f"{path}: expected {name} of shape {shape}, got {came}; {DESCRIBED}")


def filled(model: nn.Module, state: dict[str, Tensor], *, tied: bool) -> Any:
    """The model with these parameters, in evaluation mode.

    Args: tied, the projection is the embedding's matrix, which `state` has once.
    """
    if tied:  # one matrix under two names
        state |= {"projection.weight": state["embedding.weight"]}
    model.load_state_dict(state)
    return model.eval()


def size_of(found: dict[str, Any], name: str, folder: str | Path) -> int:
    """What the config says under this name: a whole number above 0, or a ValueError."""
    size = found.get(name)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(
            f"{config_file(folder)}: expected {name} as a whole number above 0, got {size!r}"
        )
    return size


def number_of(found: dict[str, Any], name: str, usual: float, folder: str | Path) -> float:
    """What the config says under this name, else `usual`: from 0 to below 1, or a ValueError."""
    number = found.get(name, usual)
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number < 1:
        raise ValueError(
            f"{config_file(folder)}: expected {name} as a number from 0 to below 1, got {number!r}"
        )
    return number


def config_file(folder: str | Path) -> str:
    """How messages name the file: with its folder, and not with the whole path."""
    return f"{Path(folder).name}/config.json"


def require(found: dict[str, Any], folder: str | Path, **wanted: Any) -> None:
    """What the config may leave out, it may not set otherwise; the model's type it must name.

    Errors: ValueError that names the setting, what was expected and what came.
    """
    for name, value in wanted.items():
        got = found.get(name, None if name == "model_type" else value)
        if got != value:
            raise ValueError(
                f"{config_file(folder)}: expected {name} {value!r}, got {got!r}; "
                "this design would need other modules"
            )
