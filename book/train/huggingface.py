"""A model's folder in Hugging Face's layout: `config.json` and `model.safetensors`, read with care.

A large model has several files of weights, its shards, and `model.safetensors.index.json`, which
says for each tensor in which of them it is. Names and shapes are checked before any number is used,
and nothing is fetched from anywhere. Which names and settings a design has, its own loader knows;
here is what all loaders need."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
REAL = ("F16", "BF16", "F32", "F64")  # what safetensors calls the types of real numbers
SMALL = ("F8", "F6", "F4", "I8", "U8")  # those of quantised numbers begin so
DESCRIBED = "is it the model that config.json describes?"
REMEDY = "fetch the folder again, whole"
UNQUANTISED = (
    "numbers of 8 bits or fewer need the scales and the arithmetic of their own method; take the "
    "folder of the same model in bfloat16"
)


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read what a folder's config.json says of its model.

    Errors: ValueError for a file that is missing or is not a JSON object.
    """
    return _json_object(Path(folder) / CONFIG)


def _json_object(path: Path) -> dict[str, Any]:
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
    with _opened(folder) as (path, stored):
        n_tensors = len(stored)
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
    """Read the tensors of `wanted`, by name and shape, from a folder's model.safetensors or shards.

    All names and shapes are compared before the first number is read.

    Args:
        folder: where the files are.
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
    with _opened(folder) as (path, stored):
        named: dict[str, str] = {}  # from plain names to those in the files
        for name in stored:
            plain = _plain_name(name, prefix)
            if plain in named:
                raise ValueError(
                    f"{path}: expected each tensor once, got {name} beside {named[plain]}; {REMEDY}"
                )
            named[plain] = name
        slices = {plain: stored[name].get_slice(name) for plain, name in named.items()}
        shapes = {plain: found.get_shape() for plain, found in slices.items()}
        kinds = {plain: slices[plain].get_dtype() for plain in wanted if plain in slices}
        if others := [plain for plain, kind in kinds.items() if kind not in REAL]:
            kind = kinds[others[0]]
            remedy = UNQUANTISED if kind.startswith(SMALL) else REMEDY
            got = f"{kind} in {others[0]}"
            raise ValueError(f"{path}: expected finite real numbers, got {got}; {remedy}")
        copies = {name: of for name, of in (copies or {}).items() if name in named}
        _compare(path, shapes, wanted, (*unused, *copies))

        def read(plain: str) -> Tensor:
            return stored[named[plain]].get_tensor(named[plain]).to(dtype)

        found = {plain: read(plain) for plain in wanted}
        for name, of in copies.items():
            if not torch.equal(read(name), found[of]):
                raise ValueError(
                    f"{path}: expected {name} to be {of}, as config.json says by "
                    "tie_word_embeddings, got another matrix, which would be lost; take a "
                    "model whose two are tied"
                )
    for name, tensor in found.items():
        if not tensor.isfinite().all():
            got = f"NaN or what {dtype} cannot hold"
            raise ValueError(f"{path}: expected finite real numbers in {name}, got {got}; {REMEDY}")
    return found


@contextmanager
def _opened(folder: str | Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Meanwhile, each tensor's name and the open file that has it; and how messages name them all.

    Errors: ValueError for a file that is missing or broken, and for shards that do not have what
        their index says.
    """
    from safetensors import SafetensorError, safe_open  # only who loads weights needs safetensors

    path, shards = _files(folder)
    stored: dict[str, Any] = {}
    with ExitStack() as files:
        for shard in shards:
            try:
                file = files.enter_context(safe_open(str(shard), "pt"))
                names = file.keys()
            except SafetensorError as error:
                raise ValueError(f"expected a whole file {shard}, got {error}; {REMEDY}") from error
            said = shards[shard]
            if said is not None and (wrong := said.symmetric_difference(names)):
                got = "one more" if min(wrong) in names else "none"
                raise ValueError(
                    f"{path}: expected the tensors of {shard.name} as the index says, "
                    f"got {got} called {min(wrong)}; {REMEDY}"
                )
            stored |= dict.fromkeys(names, file)
        try:
            yield path, stored
        except SafetensorError as error:
            raise ValueError(f"expected a whole file {path}, got {error}; {REMEDY}") from error


def _files(folder: str | Path) -> tuple[Path, dict[Path, set[str] | None]]:
    """The one file of weights or the index; and each file with the tensors that an index says."""
    one, index = Path(folder) / WEIGHTS, Path(folder) / INDEX
    if one.is_file():
        return one, {one: None}
    if not index.exists():
        others = sorted(other.name for other in Path(folder).glob("*model*"))
        got = f"only {', '.join(others)}" if others else "no such file"
        raise ValueError(
            f"expected a file {one}, got {got}; take a model that is stored as safetensors"
        )
    where = _json_object(index).get("weight_map")
    if not isinstance(where, dict) or not where or not all(map(_is_file_name, where.values())):
        raise ValueError(
            f"expected weight_map in {index} to name for each tensor a file of this folder, "
            f"got {str(where)[:100]}; {REMEDY}"
        )
    shards: dict[Path, set[str] | None] = {}
    for name in sorted(set(where.values())):
        shard = Path(folder) / name
        if not shard.is_file():
            raise ValueError(f"expected the files that {index} names, got no file {name}; {REMEDY}")
        shards[shard] = {tensor for tensor, file in where.items() if file == name}
    return index, shards


def _is_file_name(name: Any) -> bool:
    """Whether it names a file of the folder itself, and none of another folder."""
    return isinstance(name, str) and name not in ("", "..") and Path(name).name == name


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


def flag_of(found: dict[str, Any], name: str, usual: bool, folder: str | Path) -> bool:
    """What the config says under this name, else `usual`: true or false, or a ValueError."""
    flag = found.get(name, usual)
    if not isinstance(flag, bool):
        raise ValueError(f"{config_file(folder)}: expected {name} true or false, got {flag!r}")
    return flag


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


def require_unquantised(found: dict[str, Any], folder: str | Path) -> None:
    """An error for numbers that are stored with scales, as in FP8.

    Errors: ValueError that names the method.
    """
    if (method := found.get("quantization_config")) is not None:
        name = method.get("quant_method", method) if isinstance(method, dict) else method
        raise ValueError(
            f"{config_file(folder)}: expected weights that are not quantised, got "
            f"quantization_config of {name!r}; {UNQUANTISED}"
        )
