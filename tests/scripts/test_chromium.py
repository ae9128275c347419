"""Which Chromium is taken: the one that is named, then the one without windows, then any."""

import pytest

from scripts import chromium


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (["chromium", "chromium-headless-shell"], "chromium-headless-shell"),
        (["chromium-browser", "chromium"], "chromium"),
        (["chromium-browser"], "chromium-browser"),
        ([], None),
    ],
)
def test_the_one_without_windows_comes_first(monkeypatch, tmp_path, there, taken):
    for name in there:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert chromium.executable() == (taken and str(tmp_path / taken))
    monkeypatch.setenv("CHROMIUM", "/opt/mine")
    assert chromium.executable() == "/opt/mine"
