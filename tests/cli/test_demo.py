from pathlib import Path

import pytest

import flights
from stanchion.ops.cli.console.output import Output
from stanchion.ops.cli.run import demo
from tests.cli.conftest import Run


@pytest.mark.parametrize(("agrees", "code"), [(True, 0), (False, 1)])
def test_passes_on_what_was_asked(run: Run, url: str, monkeypatch: pytest.MonkeyPatch, agrees: bool, code: int) -> None:
    asked: list[object] = []

    def fake(store: str | None, everything: bool, out: Output, *, keep: bool, engine: str | None) -> bool:
        asked.append((store, everything, out.as_json, keep, engine))
        return agrees

    monkeypatch.setattr(flights, "run", fake)
    assert run("demo").code == code
    assert run("demo", "--all", "--url", url, "--json").code == code
    assert run("demo", "--store", url, "--keep").code == code
    assert run("demo", "--engine", "spark").code == code
    assert asked == [
        (None, False, False, False, None),
        (url, True, True, False, None),
        (url, False, False, True, None),
        (None, False, False, False, "spark"),
    ]


def test_has_its_own_app(run: Run, shop: str) -> None:
    assert run("demo", "--app", shop).code == 2


def test_refuses_what_makes_no_sense(run: Run, url: str) -> None:
    assert "not both" in run("demo", "--store", url, "--url", url).error
    assert "--keep goes with --store" in run("demo", "--keep").error


def test_an_installation_without_it_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_PLACES", (tmp_path,))
    answer = run("demo")
    assert answer.code == 1
    assert "missing in this installation" in answer.error
