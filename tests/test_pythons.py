"""The interpreters on which `make nightly` runs the quick tests."""

from pathlib import Path

import pytest

from tests import pythons


def put(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return place


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))


def test_the_newest_of_a_version_is_found(tmp_path: Path) -> None:
    put(tmp_path / "bin" / "python3.12", "echo 3.12.3")
    for patch in (1, 10, 9):
        put(tmp_path / "pyenv" / "versions" / f"3.12.{patch}" / "bin" / "python", f"echo 3.12.{patch}")
    assert pythons.interpreter("3.12") == tmp_path / "pyenv" / "versions" / "3.12.10" / "bin" / "python"


def test_a_shim_that_finds_no_interpreter_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "bin" / "python3.13", "exit 127")
    assert pythons.interpreter("3.13") is None
    python = put(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin" / "python", "echo 3.13.0")
    assert pythons.interpreter("3.13") == python


def test_a_version_that_is_missing_fails_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert pythons.main(["3.14"]) == 0
    assert capsys.readouterr().out == "Python 3.14: not found, so not tested\n"
