"""pip installs what a lock says, by its hash, and the build of torch that is offered."""

import hashlib
import zipfile

import pytest

from scripts import install_locked


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """A folder of wheels and nothing else for pip, which installs nothing; the wheel's hash."""
    wheel = tmp_path / "wheels" / "tiny_thing-1.2+cpu-py3-none-any.whl"
    wheel.parent.mkdir()
    about = "tiny_thing-1.2+cpu.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.2+cpu\n"
        )
        packed.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{about}/RECORD", "")
    monkeypatch.setattr(install_locked, "LOCKS", tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    for name in ("NO_INDEX", "DRY_RUN", "NO_CACHE_DIR", "DISABLE_PIP_VERSION_CHECK"):
        monkeypatch.setenv(f"PIP_{name}", "1")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def write(folder, name, pin, *hashes):
    lines = [pin, *(f"--hash=sha256:{one}" for one in hashes)]
    (folder / f"{name}.txt").write_text(" ".join(lines) + "\n", encoding="utf-8")


@pytest.mark.slow
def test_a_file_with_another_hash_is_refused(tmp_path, offered, capfd):
    write(tmp_path, "good", "tiny-thing==1.2", "0" * 64, offered)
    install_locked.install("good")
    for if_offered in (False, True):
        write(tmp_path, "bad", "tiny-thing==1.2", "0" * 64)
        with pytest.raises(SystemExit, match=r"pip could not install requirements/locks/bad.txt"):
            install_locked.install("bad", if_offered=if_offered)
    write(tmp_path, "bare", "tiny-thing==1.2")
    with pytest.raises(SystemExit, match=r"locks/bare.txt"):
        install_locked.install("bare")
    said = capfd.readouterr().err
    assert "DO NOT MATCH THE HASHES" in said
    assert "Hashes are required" in said


@pytest.mark.slow
def test_what_is_not_offered_is_left_out_only_where_that_is_allowed(tmp_path, offered):
    write(tmp_path, "other", "tiny-thing==1.3+cpu", offered)
    install_locked.install("other", if_offered=True)
    with pytest.raises(SystemExit):
        install_locked.install("other")


@pytest.mark.parametrize(
    ("needs", "asks"),
    [
        (["filelock", "sympy>=1.13"], False),
        (None, False),
        (["nvidia-cudnn-cu13==9.20.0.48"], True),
        (['cuda-toolkit[cudart]==13.0.3; platform_system != "Nowhere"'], True),
        (['nvidia-cudnn-cu13==9.20.0.48; platform_system == "Nowhere"'], False),
        (['nvidia-ml==1; extra == "monitor"'], False),
    ],
)
def test_cuda_is_asked_for_by_the_torch_that_is_there(monkeypatch, needs, asks):
    monkeypatch.setattr(install_locked.metadata, "requires", {"torch": needs}.__getitem__)
    assert install_locked.asks_for_cuda() == asks


def test_without_torch_nothing_asks(monkeypatch):
    def missing(name):
        raise install_locked.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(install_locked.metadata, "requires", missing)
    assert not install_locked.asks_for_cuda()


@pytest.mark.parametrize(
    ("lock", "cuda", "wanted"),
    [
        ("book", False, ["book"]),
        ("pdf", False, ["book", "pdf"]),
        ("test", False, ["book", "cpu if offered", "test"]),
        ("test", True, ["book", "cpu if offered", "test", "cuda"]),
        ("lab", True, ["book", "cpu if offered", "lab", "cuda"]),
    ],
)
def test_the_order_and_what_is_said(monkeypatch, capsys, lock, cuda, wanted):
    installed = []
    monkeypatch.setattr(
        install_locked,
        "install",
        lambda name, if_offered=False: installed.append(name + " if offered" * if_offered),
    )
    monkeypatch.setattr(install_locked, "asks_for_cuda", lambda: cuda)
    install_locked.main(lock)
    assert installed == wanted
    said = capsys.readouterr().out.splitlines()
    steps = len(wanted) - cuda
    starts = [f"{step}/{steps} installing " for step in range(1, steps + 1)] + ["and "] * cuda
    assert all(line.startswith(start) for line, start in zip(said, starts, strict=True))


def test_an_unknown_other_build_is_not_looked_for(tmp_path, monkeypatch):
    installed = []
    (tmp_path / "cpu.txt").write_text("# none is known\n", encoding="utf-8")
    monkeypatch.setattr(install_locked, "LOCKS", tmp_path)
    monkeypatch.setattr(install_locked, "install", lambda name, if_offered: installed.append(name))
    monkeypatch.setattr(install_locked, "asks_for_cuda", lambda: False)
    install_locked.main("test")
    assert installed == ["book", "test"]
