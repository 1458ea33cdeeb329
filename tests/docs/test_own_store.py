"""The store of examples/logged.py: short, complete, not harmed by a death; and its tests in docs/stores/own.md."""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion_conformance.harness import claim, new_job
from tests.docs.pages import ROOT, blocks

EXAMPLE = ROOT / "examples" / "logged.py"
SHOWN = {block.file: block.text for block in blocks(ROOT / "docs" / "stores" / "own.md") if block.file}


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the page."""
    path = tmp_path / "logged.py"
    path.write_text(EXAMPLE.read_text())
    spec = importlib.util.spec_from_file_location("logged", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "logged", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "jobs.log"


def opened(logged: ModuleType, log: Path) -> Any:
    store = logged.LoggedStore(log)
    store.setup()
    return store


def test_it_is_short_and_has_every_verb(logged: ModuleType) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 400
    verbs = {name for name in vars(Store) if not name.startswith("_")}
    assert {verb for verb in verbs if not hasattr(logged.LoggedStore, verb)} == set()


def test_a_snapshot_takes_the_place_of_the_log(logged: ModuleType, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "COMPACT_BYTES", 1)
    one, other = opened(logged, log), opened(logged, log)
    first, second = new_job(), new_job()
    one.set_semaphore("s", 3)
    one.push([first])
    (row,) = claim(other)
    before = log.read_bytes()[: logged.GENERATION]
    one.maintain()
    assert log.read_bytes()[: logged.GENERATION] != before
    other.push([second])
    assert one.settle([Commit(row.lease)]) == [JobState.DONE]
    assert [row.id for row in claim(opened(logged, log))] == [second.id]
    assert [semaphore.capacity for semaphore in other.semaphores()] == [3]


def test_an_entry_whose_writer_died_amid_it_is_passed_over(logged: ModuleType, log: Path) -> None:
    one = opened(logged, log)
    first, second = new_job(), new_job()
    one.push([first])
    whole = log.read_bytes()
    one.push([new_job()])
    half = log.read_bytes()[len(whole) :]
    for rest in [half[:length] for length in range(1, len(half), 7)] + [bytes(100)]:
        log.write_bytes(whole + rest)
        assert set(opened(logged, log).fetch([first.id])) == {first.id}
    one = opened(logged, log)
    one.push([second])
    assert [row.id for row in claim(opened(logged, log), 5)] == [first.id, second.id]


def test_no_answered_push_is_lost_to_a_kill(logged: ModuleType, log: Path) -> None:
    store = opened(logged, log)
    program = (
        "import sys; from logged import LoggedStore; from stanchion import Stanchion\n"
        "queue = Stanchion(store=LoggedStore(sys.argv[1])).queue('orders')\n"
        "while True: print(queue.push({}).id, flush=True)"
    )
    killed = [
        subprocess.Popen([sys.executable, "-c", program, str(log)], cwd=log.parent, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answered = []
    for process in killed:
        assert process.stdout is not None
        answered += [process.stdout.readline().strip() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        answered += process.stdout.read().splitlines()[:-1]  # the last one may be cut
        process.wait()
        process.stdout.close()
    assert len(answered) >= 40
    assert set(store.fetch(answered)) == set(answered)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_it_passes_the_suite(tmp_path: Path) -> None:
    (tmp_path / "logged.py").write_text(EXAMPLE.read_text())
    for name in ("conftest.py", "test_logged.py"):
        (tmp_path / name).write_text(SHOWN[name])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "300", "test_logged.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:]
