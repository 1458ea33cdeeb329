import subprocess
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.context import context_of, steadiness
from stanchion.context.upkeep import Maintained
from stanchion.ops.cli.operate import maintain
from tests.cli.conftest import Run


@pytest.fixture
def lost(app: Stanchion) -> str:
    """A job whose lease has run out."""
    job = app.queue("mail").push({})
    app.queue("mail").reserve(lease=0.01)
    time.sleep(0.01)
    return job.id


def test_takes_back_what_was_lost(run: Run, lost: str) -> None:
    assert run("maintain").out == "recovered 1 lost jobs\n"
    assert run("maintain").out == "nothing to do\n"
    assert run("maintain", "--json").json == {"recovered": 0, "behind": []}
    assert run("show", lost, "--json").json["state"] == "ready"


def test_refuses_what_is_no_length_of_time(run: Run) -> None:
    assert "--every must be a duration" in run("maintain", "--every", "often").error


def test_goes_on(start: Callable[..., subprocess.Popen[str]], app: Stanchion, lost: str) -> None:
    said = start("maintain", "--every", "50ms").stdout
    assert said is not None
    assert "recovered 1 lost jobs\n" in iter(said.readline, "")
    job = app.get(lost)
    assert job is not None
    assert job.state == "ready"


class Ended(Exception):
    """The test has seen enough rounds."""


def test_later_rounds_take_back_what_is_lost_by_now(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones, which may follow an outage, what was lost in the round before; and so after a gap."""
    clock, rounds = SimpleNamespace(now=1000.0), list[tuple[int | None, int]]()

    def sleep(seconds: float) -> None:
        clock.now += seconds
        app.store.clock_offset += seconds

    played = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr(maintain, "time", played)
    monkeypatch.setattr(steadiness, "boot_clock", lambda: clock.now)

    def round_(_seconds: float, as_of: int | None) -> Maintained:
        if len(rounds) == 12:
            raise Ended
        rounds.append((as_of, app.store.now()))
        clock.now += 25.0 if len(rounds) == 8 else 0.0  # the store did not answer
        return Maintained(0)

    monkeypatch.setattr(context_of(app).upkeep, "round", round_)
    session: Any = SimpleNamespace(app=app, out=SimpleNamespace(done=lambda *_: None))
    with pytest.raises(Ended):
        maintain.keep_on(session, 25.0, 60.0)
    assert rounds[0][0] is None
    kinds = [
        "none" if as_of is None else "before" if as_of <= before else "now"
        for (as_of, _), (_, before) in zip(rounds[1:], rounds, strict=False)
    ]
    assert kinds == ["before", *["now"] * 6, "before", "now", "now", "now"]
