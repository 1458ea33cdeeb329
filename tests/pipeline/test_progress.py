"""The progress of the stations of a run, as figures and as `stanchion pipeline run` shows it."""

import io
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from stanchion import Retry, Stanchion, wings
from stanchion.ops.cli.console.output import Output
from stanchion.ops.cli.run import progress as shown
from stanchion.pipelines import Pipeline
from stanchion.pipelines.status import StationProgress, progress_since
from tests.cli.conftest import Run, app, run, url  # noqa: F401

FLOW = """
from stanchion import Stanchion

app = Stanchion()
etl = app.pipeline("etl")
etl.station("raw")(print)
"""


def test_what_was_there_before_the_run_does_not_count(app: Stanchion) -> None:  # noqa: F811
    etl = app.pipeline("etl")

    @etl.station("raw", to="clean", retry=Retry.constant(0, jitter=0, max_attempts=2))
    def raw(n: int) -> int | None:
        if n == 7:
            raise ValueError("seven")
        return None if n == 8 else n

    etl.station("clean")(lambda n: n)
    etl.push_many([1, 7, 8])
    etl.drain()
    start = etl.status()
    etl.push_many([*range(10)])
    etl.push(11, delay=60)
    etl.drain()
    now = etl.status(start)
    found = progress_since(start, now)
    assert [one._replace(rate=None) for one in found] == [
        StationProgress("raw", 10, 11, None, failed=1, retried=1),
        StationProgress("clean", 8, 8, None, failed=0, retried=0),
    ]
    assert found[0].rate is not None


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (StationProgress("clean", 0, 0, None, 0, 0), "clean 0 of 0"),
        (StationProgress("clean", 0, 5, 0.0, 0, 0), "clean 0 of 5 · 0/s"),
        (StationProgress("clean", 2, 5, 0.25, 0, 3), "clean 2 of 5 · 0.2/s · 3 retried"),
        (
            StationProgress("clean", 1_200_000, 3_000_000, 84_000.4, 31, 0),
            "clean 1,200,000 of 3,000,000 · 84,000/s · 31 failed",
        ),
    ],
)
def test_the_line_of_a_station(progress: StationProgress, line: str) -> None:
    assert progress.line == line


def at(done: int, rate: float = 1.0) -> list[StationProgress]:
    """Return the progress of two stations, of which one stands still."""
    return [StationProgress("raw", done, 9, rate, 0, 0), StationProgress("clean", 0, 0, rate, 0, 0)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Take back what a command sets up for the log."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    logging.captureWarnings(capture=False)


def test_without_a_terminal_lines_are_logged_now_and_then(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    caplog.set_level(logging.INFO)
    with shown.shown_progress(Output(), "info", "text") as watch:
        for second in range(0, 26, 2):
            clock[0] = second
            watch(at(second // 2))
    assert caplog.messages == [
        "raw 5 of 9 · 1.0/s",
        "clean 0 of 0 · 1.0/s",
        "raw 10 of 9 · 1.0/s",
        "raw 12 of 9 · 1.0/s",
    ]


def test_on_a_terminal_lines_are_rewritten_and_the_log_is_above() -> None:
    out, terminal = Output(), io.StringIO()
    out.remarks = Console(file=terminal, force_terminal=True, width=60, _environ={"TERM": "xterm"})
    logging.getLogger().handlers.clear()
    with shown.shown_progress(out, "info", "text") as watch:
        watch(at(1))
        logging.getLogger("stanchion.spark").warning("restarting it in 2 s")
        logging.getLogger().handlers[0].flush()
        watch(at(2))
    written = terminal.getvalue()
    assert written.index("raw 1 of 9") < written.index("restarting it in 2 s") < written.rindex("raw 2 of 9")
    assert "\x1b[2K" in written  # a line is erased


def test_the_command_hands_its_options_to_the_engine(
    run: Run,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "waves.py").write_text(FLOW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    given: dict[str, Any] = {}

    def engine(_: Pipeline, **options: Any) -> None:
        given.update(options)
        options.pop("watch")(at(1))

    monkeypatch.setattr(wings, "module", lambda *_: SimpleNamespace(run=engine))
    answer = run("pipeline", "run", "waves:etl", "--engine", "spark", "--available-now", "--grace", "5s")
    assert answer.code == 0, answer.err
    assert (given["available_now"], given["heartbeat"], given["grace"]) == (True, 10.0, 5.0)
