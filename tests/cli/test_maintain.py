import subprocess
import time
from collections.abc import Callable

import pytest

from stanchion import Stanchion
from tests.cli.conftest import Run


@pytest.fixture
def lost(app: Stanchion) -> str:
    """A job whose lease has run out."""
    job = app.queue("mail").push({})
    app.queue("mail").reserve(lease=0.001)
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
