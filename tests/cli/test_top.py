import io
import json
import subprocess
import time
from collections.abc import Callable

from rich.console import Console

from stanchion import Stanchion
from stanchion.ops.cli.live.frame import frame
from stanchion.ops.cli.live.sample import Samples, sample
from tests.cli.conftest import Run


def busy_store(app: Stanchion) -> None:
    app.queue("mail").push_many(range(3))
    app.queue("mail").reserve()[0].progress(0.25)
    app.queue("orders").push(1, max_attempts=1)
    app.queue("orders").reserve()[0].bury("no money")


def test_once_prints_a_frame(run: Run, app: Stanchion) -> None:
    busy_store(app)
    answer = run("top", "--once", "--interval", "100ms")
    assert answer.code == 0
    for words in ("stanchion  sqlite", "QUEUE", "mail", "RUNNING JOB", "25%", "DEAD JOB", "no money"):
        assert words in answer.out


def test_once_json(run: Run, app: Stanchion) -> None:
    busy_store(app)
    frame = run("top", "--once", "--json", "--interval", "0.1").json
    assert frame.keys() == {"at", "store", "queues", "workers", "running", "dead"}
    mail, orders = frame["queues"]
    assert (mail["queue"], mail["size"]["running"], orders["counts"]["buried"]) == ("mail", 1, 1)
    assert mail["per_second"] == {"pushed": 0, "done": 0, "failed": 0, "dead": 0}
    assert (len(frame["running"]), len(frame["dead"])) == (1, 1)


def test_of_an_empty_store(run: Run) -> None:
    run("setup")
    assert run("top", "--once", "--interval", "0.1").code == 0


def test_rates_are_those_between_two_looks(start: Callable[..., subprocess.Popen[str]], app: Stanchion) -> None:
    app.queue("mail").push(0)
    top = start("top", "--json", "--interval", "0.3")
    assert top.stdout is not None
    json.loads(top.stdout.readline())
    app.queue("mail").push_many(list(range(30)))
    for job in app.queue("mail").reserve(10):
        job.commit()
    deadline = time.monotonic() + 60
    pushed = done = 0.0
    while time.monotonic() < deadline and (not pushed or not done):
        rates = json.loads(top.stdout.readline())["queues"][0]["per_second"]
        pushed, done = max(pushed, rates["pushed"]), max(done, rates["done"])
    assert 10 < pushed <= 30 / 0.25
    assert 0 < done <= 10 / 0.25


def test_the_interval_has_a_least(run: Run) -> None:
    answer = run("top", "--interval", "1ms")
    assert answer.code == 2
    assert "--interval" in answer.error


def test_a_frame_fits_its_terminal(app: Stanchion) -> None:
    for number in range(40):
        app.queue(f"queue-{number}").push(1, max_attempts=1)
        app.queue(f"queue-{number}").reserve()[0].bury("no money " * 20)
    samples = Samples()
    samples.add(sample(app))
    for width, height in ((80, 24), (80, 50), (200, 60)):
        console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
        console.print(frame(samples, width, height, trouble="can't reach the store"))
        assert isinstance(console.file, io.StringIO)
        lines = console.file.getvalue().splitlines()
        assert len(lines) <= height
        assert max(map(len, lines)) <= width
        assert "can't reach the store" in lines
        assert "and " in lines[-1]
