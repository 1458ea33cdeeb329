"""Each command is known as an act, which is in the audit log before it is done, or as one that changes nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import typer

from stanchion import Stanchion
from stanchion.errors import NotPermitted, StoreUnavailable
from stanchion.ops.audit import AuditLog
from stanchion.ops.cli import cli
from stanchion.topics import directory
from tests.acts import content, fill
from tests.cli.conftest import Run

ETL = """
from stanchion import Stanchion

etl = Stanchion().pipeline("etl")
etl.station("load", to="store")(print)
etl.station("store")(print)
"""

Said = tuple[str, str, int, str]
"""An entry: act, subject, number, note."""

REPLAYED = "1 chosen jobs: {dead}"

ACTS: dict[str, tuple[list[str], list[Said]]] = {
    "alerts on-it": (["stale"], [("on it", "queue:stale", 0, "")]),
    "alerts set": (["no_worker=2m"], [("set limits", "alerts", 0, "no_worker=2m")]),
    "archive": (
        ["{here}/new", "--older-than", "0", "-q", "mail", "--engine", "local"],
        [
            ("archive", "mail", 0, "older than 0 to {here}/new"),
            ("archive: finished", "mail", 2, "2 purged from the store"),
        ],
    ),
    "cancel": (["-q", "mail"], [("cancel", "mail", 0, ""), ("cancel: finished", "mail", 3, "")]),
    "copy": (
        ["{url}", "sqlite:///{here}/other.db", "-q", "mail", "--settle", "0"],
        [("copy", "mail", 0, "to sqlite:///{here}/other.db")],
    ),
    "cron pause": (["nightly"], [("pause schedule", "nightly", 0, "")]),
    "cron remove": (["nightly"], [("remove schedule", "nightly", 0, "")]),
    "cron resume": (["weekly"], [("resume schedule", "weekly", 0, "")]),
    "cron trigger": (["nightly"], [("run schedule", "nightly", 1, "")]),
    "pause": (["mail", "--note", "a test"], [("pause", "mail", 0, "a test")]),
    "pipeline backfill": (
        ["etl:etl", "load", "--name", "fix"],
        [("backfill", "etl.load", 0, "fix"), ("backfill: finished", "etl.load", 0, "fix")],
    ),
    "pipeline pause": (["etl:etl", "load"], [("pause", "etl.load", 0, "")]),
    "pipeline resume": (["etl:etl", "store"], [("resume", "etl.store", 0, "")]),
    "push": (["mail", "1"], [("push", "mail", 1, "")]),
    "queues delete": (["mail", "--yes"], [("delete", "mail", 3, "")]),
    "queues purge": (["mail"], [("purge", "mail", 0, "")]),
    "queues reset": (["slow"], [("reset settings", "slow", 0, "")]),
    "queues set": (["mail", "max_rate=5"], [("set settings", "mail", 0, "max_rate=5")]),
    "rates delete": (["key:psp"], [("delete rate", "key:psp", 0, "was 20/s")]),
    "rates reset": (["key:psp"], [("reset rate", "key:psp", 0, "")]),
    "rates set": (["key:psp", "5/s"], [("set rate", "key:psp", 0, "20/s → 5/s")]),
    "replay": (
        ["-q", "mail", "-s", "done"],
        [("replay", "mail done", 0, ""), ("replay: finished", "mail done", 1, "")],
    ),
    "resume": (["slow"], [("resume", "slow", 0, "")]),
    "retry": (["-q", "mail"], [("retry", "mail", 0, ""), ("retry: finished", "mail", 1, "")]),
    "semaphores reset": (["psp"], [("reset semaphore", "psp", 0, "")]),
    "semaphores resize": (["psp", "3"], [("resize semaphore", "psp", 0, "→ 3")]),
    "streams release": (["lake", "--yes"], [("release stream", "lake", 0, "")]),
    "topics catch-up": (["orders", "stock"], [("catch up", "orders", 0, "stock")]),
    "topics subscribe": (
        ["orders", "new", "-q", "mail", "--since", "all"],
        [("subscribe", "orders", 0, "new in mail since all")],
    ),
    "topics unsubscribe": (["orders", "stock", "--delete"], [("unsubscribe", "orders", 0, "stock with its queue")]),
}
"""What operators do by hand to jobs, queues, settings, topics, streams and schedules."""

OF_SHARDS: dict[str, tuple[list[str], list[Said]]] = {
    "shards abandon": ([], [("abandon moves", "shards", 0, "")]),
    "shards move": (["orders", "3", "two", "--settle", "0"], [("move partitions", "orders#3", 0, "→ two")]),
    "shards resume": (["--settle", "0"], [("resume moves", "shards", 0, "")]),
    "shards split": (["one", "two", "--settle", "0"], [("move partitions", "orders#2, orders#3", 0, "→ two")]),
}

LOOKS: dict[str, list[str]] = {
    "alerts": [],
    "alerts limits": [],
    "audit": [],
    "cron": [],
    "cron list": [],
    "cron next": ["0 3 * * *"],
    "errors": [],
    "jobs": [],
    "lanes": ["wide"],
    "manager status": [],
    "pipeline backfills": ["etl:etl"],
    "pipeline graph": ["etl:etl"],
    "pipeline plan": ["etl:etl"],
    "pipeline status": ["etl:etl", "--once", "-i", "0.1s"],
    "queues": [],
    "queues schema": ["mail"],
    "rates": [],
    "report": ["--out", "{here}/page.html"],
    "semaphores": [],
    "semaphores show": ["psp"],
    "show": ["{dead}"],
    "stores": [],
    "streams": [],
    "streams list": [],
    "top": ["--once"],
    "topics": [],
    "watch": ["--since", "1h", "--until-idle", "0"],
    "workers": [],
}
"""What changes nothing in the store but the samples that readings for alerts keep."""

OTHERS = {
    "bench": "uses queues of its own, and deletes them",
    "demo": "uses a store of its own, or queues of its own",
    **dict.fromkeys(
        (f"deploy {kind}" for kind in ("compose", "grafana", "kubernetes", "prometheus", "systemd")),
        "prints files, and opens no store",
    ),
    "maintain": "does what each worker does all the time",
    "manager": "serves others, whose acts are theirs",
    "pipeline run": "works as the code says",
    "pipeline split": "needs a chunk: tests/pipeline/test_split.py",
    "setup": "comes before there is a log; a deployment repeats it",
    "shards": "shows where partitions are; only with a map of shards",
    "web": "serves the page, whose acts are in tests/web/test_acts.py",
    "worker": "works as the code says",
}
"""What changes the store, but not by hand to what is others'; and what is tried elsewhere."""


def named(app: typer.Typer, before: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of all commands."""
    for command in app.registered_commands:
        yield " ".join((*before, str(command.name)))
    for group in app.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        if inner.registered_callback is not None:
            yield " ".join((*before, str(group.name)))
        yield from named(inner, (*before, str(group.name)))


def test_each_command_is_an_act_or_is_known_to_be_none() -> None:
    known = [*ACTS, *OF_SHARDS, *LOOKS, *OTHERS]
    assert sorted(known) == sorted(named(cli))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The file of a filled store, and the id of a dead job in it."""
    file = tmp_path_factory.mktemp("filled") / "jobs.db"
    with closing(Stanchion(f"sqlite:///{file}?synchronous=off")) as app:
        app.rate("psp", "20/s")
        dead = fill(app)
    return file, dead


Call = Callable[[str, list[str]], int]


@pytest.fixture
def url(filled: tuple[Path, str], tmp_path: Path) -> str:
    for file in filled[0].parent.iterdir():
        shutil.copy(file, tmp_path)
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def words(tmp_path: Path, url: str, filled: tuple[Path, str]) -> dict[str, str]:
    """What stands for names in braces."""
    return {"here": str(tmp_path), "url": url, "dead": filled[1]}


@pytest.fixture
def call(run: Run, words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Run a command by its name, with arguments; return its exit code."""
    (tmp_path / "etl.py").write_text(ETL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(directory, "UNDER_WAY", 0.0)

    def invoke(name: str, args: list[str]) -> int:
        own = {} if name != "copy" else {"STANCHION_URL": ""}
        return run(*name.split(), *(one.format(**words) for one in args), **own).code

    yield invoke
    sys.modules.pop("etl", None)


def entries(url: str) -> list[Said]:
    """Return what is in the log of a store, oldest first."""
    with closing(Stanchion(url)) as app:
        found, _ = AuditLog(lambda: app.store).newest(50)
    assert all(entry.address == "shell" and "@" in entry.who for entry in found)
    return [(one.act, one.subject, one.number, one.note) for one in found[::-1]]


def refuse(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr(AuditLog, "add", refused)


def acts_only_with_the_log(act: Callable[[], int], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command fail without the log, which changes nothing, then act with it."""
    before = content(folder)
    with monkeypatch.context() as patch:
        refuse(patch, StoreUnavailable("the store is gone"))
        assert act() == 1
    assert content(folder) == before
    assert act() == 0


def set_up(url: str) -> None:
    with closing(Stanchion(url)) as app:
        app.setup()


@pytest.mark.parametrize("name", ACTS)
def test_an_act_is_written_before_it_is_done(
    call: Call, name: str, url: str, words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, said = ACTS[name]
    if name == "copy":
        set_up(f"sqlite:///{tmp_path}/other.db?synchronous=off")
    acts_only_with_the_log(lambda: call(name, args), tmp_path, monkeypatch)
    assert entries(url) == [
        (act, subject.format(**words), number, note.format(**words)) for act, subject, number, note in said
    ]


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_changes_nothing(call: Call, name: str, tmp_path: Path) -> None:
    before = content(tmp_path)
    assert call(name, LOOKS[name]) in (0, 1)
    assert content(tmp_path) == before


def test_what_is_hidden_is_shown_by_an_act(call: Call, url: str, words: dict[str, str]) -> None:
    assert call("show", ["{dead}", "--reveal"]) == 0
    assert entries(url) == [("show hidden", words["dead"], 1, "")]


def test_a_dry_run_is_none(call: Call, tmp_path: Path) -> None:
    before = content(tmp_path)
    assert call("retry", ["-q", "mail", "--dry-run"]) == 0
    assert content(tmp_path) == before


REFUSED = {
    "alerts set": ["no_worker=-1"],
    "archive": ["{here}/new", "-q", "mail", "-q", "nosuch"],
    "copy": ["{url}", "sqlite:///{here}/other.db", "-q", "nosuch"],
    "push": ["mail", "{{"],
    "semaphores resize": ["nosuch", "2"],
    "topics catch-up": ["orders", "nosuch"],
}


def test_what_is_refused_is_none(call: Call, tmp_path: Path) -> None:
    set_up(f"sqlite:///{tmp_path}/other.db?synchronous=off")
    before = content(tmp_path)
    for name, args in REFUSED.items():
        assert call(name, args) == 2
    assert content(tmp_path) == before


def test_a_pushed_file_has_a_begin_and_an_end(call: Call, url: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1\n2\n")
    assert call("push", ["mail", "--file", "lines", "--task", "send"]) == 2
    (tmp_path / "lines").write_text("[1]\n[2]\n")
    assert call("push", ["mail", "--file", "lines", "--task", "send"]) == 0
    assert call("push", ["mail", "--task", "send", "--arg", "1"]) == 0
    assert entries(url) == [
        ("push", "mail", 0, "send from lines"),
        ("push: finished", "mail", 2, "send from lines"),
        ("push", "mail", 1, "send"),
    ]


def test_a_token_that_may_not_write_the_log_acts_and_is_told(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, NotPermitted("the token of ana takes the role admin"))
    answer = run("pause", "mail", "--note", "x")
    assert answer.code == 0
    assert "not in the audit log" in answer.err
    with closing(Stanchion(url)) as app:
        assert app.queue("mail").settings.paused


SHARDS = """default = "one"
[shards]
one = "sqlite:///one.db?synchronous=off"
two = "sqlite:///two.db?synchronous=off"
"""


@pytest.fixture
def shards(tmp_path: Path) -> Stanchion:
    """A map of two shards, the first of which has all partitions."""
    for file in tmp_path.glob("jobs.db*"):
        file.unlink()
    (tmp_path / "shards.toml").write_text(SHARDS)
    app = Stanchion(f"shards:///{tmp_path}/shards.toml")
    app.queue("orders", partitions=4)
    app.setup()
    app.queue("orders").push_many(range(8))
    return app


@pytest.mark.parametrize("name", OF_SHARDS)
def test_moves_of_partitions_are_written(
    call: Call, name: str, shards: Stanchion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stanchion.copying.planning import Plans

    args, said = OF_SHARDS[name]
    given = [*args, "--url", shards.url]
    if name in ("shards abandon", "shards resume"):
        Plans(shards.store).put(["orders#1"], "two")
    acts_only_with_the_log(lambda: call(name, given), tmp_path, monkeypatch)
    assert entries(shards.url) == said
    shards.close()


def test_the_log_is_listed(call: Call, run: Run) -> None:
    assert run("audit").code == 1
    call("pause", ["mail", "--note", "the provider is down"])
    call("resume", ["mail"])
    heading, resumed, paused = run("audit").out.splitlines()
    assert heading.split() == ["WHEN", "WHO", "ACT", "ON", "JOBS", "NOTE", "FROM"]
    assert resumed.split()[2:4] == ["resume", "mail"]
    assert "the provider is down" in paused
    (one,) = run("audit", "--act", "pause", "--since", "1h", "--json").json
    assert (one["act"], one["subject"], one["note"], one["address"]) == (
        "pause",
        "mail",
        "the provider is down",
        "shell",
    )
    assert run("audit", "--until", "1h").code == 1
    assert run("audit", "--limit", "1").err == "the newest 1; --limit shows more\n"
