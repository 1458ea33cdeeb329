"""Names, URLs and options that name nothing: each command says so, and what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from stanchion import Stanchion
from stanchion.core.urls import Listen
from stanchion.errors import InvalidInput
from stanchion.manager.server import settings
from stanchion.ops.web import serving
from stanchion.stores.registry import open_store
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["jobs", "--queue", "nosuch"], 1),
        (["jobs", "--queue", "nosuch", "--json"], 1),
        (["retry", "--queue", "nosuch"], 1),
        (["cancel", "--queue", "nosuch"], 1),
        (["errors", "--queue", "nosuch"], 1),
        (["report", "--json", "--queue", "nosuch"], 1),
        (["queues", "set", "nosuch", "max_rate=5"], 0),
    ],
    ids=str,
)
def test_a_command_says_that_there_is_no_such_queue(run: Run, app: Stanchion, args: list[str], code: int) -> None:
    app.queue("mail").push({})
    said = run(*args)
    assert said.code == code
    assert "there is no queue 'nosuch'" in said.err
    assert "there is no" not in run(*["mail" if one == "nosuch" else one for one in args]).err


def test_a_worker_says_that_there_is_no_such_queue(
    start: Callable[..., subprocess.Popen[str]], app: Stanchion, shop: str
) -> None:
    app.queue("other").push({})
    worker = start("worker", shop, "--queues", "mail,nosuch,other", "--until-empty", "--log-level", "error")
    _, err = worker.communicate(timeout=120)
    assert "there is no queue 'nosuch' yet" in err
    assert "'mail'" not in err
    assert "'other'" not in err


@pytest.mark.parametrize("read", [serving.listen_address, settings.listen_address])
def test_a_port_alone_is_a_port_of_this_machine(read: Callable[[str], Listen]) -> None:
    assert read("7200") == ("127.0.0.1", 7200)
    assert read("host").host == "host"
    with pytest.raises(InvalidInput, match="host:port"):
        read("70000")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("jobs.db", "sqlite:///jobs.db"),
        ("/var/jobs.db", "sqlite:////var/jobs.db"),
        ("", "sqlite:///jobs.db"),
    ],
)
def test_a_path_is_told_as_the_url_of_its_file(given: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=f"{told}$"):
        open_store(given)


def test_what_may_hold_a_password_is_not_told() -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store("ana:hunter2@db/shop")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "args",
    [
        ["maintain", "--every", "0"],
        ["maintain", "--every", "1ms"],
        ["alerts", "--watch", "--interval", "0"],
        ["top", "--once", "--interval", "0"],
    ],
    ids=" ".join,
)
def test_no_command_repeats_without_a_pause(run: Run, app: Stanchion, args: list[str]) -> None:
    app.setup()
    said = run(*args)
    assert said.code == 2
    assert "must be at least" in said.error
