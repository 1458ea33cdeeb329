"""What a worker logs of its jobs."""

import json
import logging
import subprocess
import sys

import pytest

from stanchion import Stanchion, Worker
from stanchion.errors import InvalidInput
from stanchion.service.logs import JsonLines, TextLines, log_to_stderr
from stanchion.stores.records.jobs import JobRow, Lease
from stanchion.stores.records.outcomes import Bury, Commit
from stanchion.telemetry.lines import LINES_A_SECOND, JobLines


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def row(job_id: str, task: str | None = "greet") -> JobRow:
    fields = dict.fromkeys(JobRow._fields)
    return JobRow(**{**fields, "id": job_id, "queue": "mail", "task": task, "attempts": 1})  # type: ignore[arg-type]


def end(lines: JobLines, job_id: str, seconds: float = 0.003, task: str | None = "greet") -> None:
    lines.ended(row(job_id, task), seconds, None)
    lines.stored(job_id, "mail", Commit(Lease(job_id, "mail", "t")), failed=False)


def test_one_line_for_each_job_with_its_fields(caplog):
    caplog.set_level(logging.INFO, "stanchion.jobs")
    lines = JobLines(Clock())
    end(lines, "j1")
    end(lines, "j2", 90.0, None)
    assert caplog.messages == ["done greet j1 in 3 ms", "done a payload of mail j2 in 1 min 30 s"]
    fields = json.loads(JsonLines().format(caplog.records[0]))
    assert {name: fields[name] for name in ("job", "queue", "task", "outcome", "attempt", "seconds", "level")} == {
        "job": "j1", "queue": "mail", "task": "greet", "outcome": "done", "attempt": 1, "seconds": 0.003,
        "level": "INFO",
    }  # fmt: skip


def test_sums_under_load_count_each_job_once(caplog):
    caplog.set_level(logging.INFO, "stanchion.jobs")
    clock = Clock()
    lines = JobLines(clock)
    for number in range(1000):
        end(lines, f"a{number}")
    for number in range(200):
        end(lines, f"b{number}", 2.0, f"task{number % 7}")
    assert len(caplog.messages) == LINES_A_SECOND
    clock.now += 4
    lines.sum_up(10)
    assert len(caplog.messages) == LINES_A_SECOND
    clock.now += 6
    end(lines, "last")
    sums = caplog.records[-1]
    assert sums.getMessage().startswith(f"{1201 - LINES_A_SECOND:,} more jobs in 10 s: done greet 981 (3 ms each)")
    assert "3 more tasks" in sums.getMessage()
    assert sum(sums.jobs.values()) == 1201 - LINES_A_SECOND
    end(lines, "alone")
    assert caplog.messages[-1] == "done greet alone in 3 ms"
    lines.sum_up()
    assert len(caplog.messages) == LINES_A_SECOND + 2


def test_a_failure_that_was_told_already_has_no_second_line(caplog):
    caplog.set_level(logging.INFO, "stanchion.jobs")
    lines = JobLines(Clock())
    lines.ended(row("j1"), 0.1, None)
    lines.stored("j1", "mail", Bury(Lease("j1", "mail", "t"), "no"), failed=True)
    lines.stored("never ran here", "mail", None, failed=False)
    assert caplog.messages == []


def test_a_line_of_json_has_the_exception_and_survives_strange_values():
    try:
        raise ValueError("déjà\nvu")
    except ValueError:
        record = logging.getLogger("x").makeRecord(
            *("x", logging.ERROR, "f", 1, "it failed: %s", ("\ud800",), sys.exc_info()), extra={"what": object()}
        )
    line = JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert told["message"] == "it failed: \ud800"
    assert told["exception"].endswith("ValueError: déjà\nvu")
    assert told["time"].endswith("Z")


HOSTILE = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe\r2026-01-01 INFO forged\u2028forged\x85forged\n2026-01-01 INFO forged"


def test_a_line_of_text_shows_control_characters_and_indents_what_follows():
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record = logging.getLogger("x").makeRecord(
            *("x", logging.ERROR, "f", 1, "job %s failed: %s", ("j1", HOSTILE), sys.exc_info())
        )
    text = TextLines().format(record)
    assert all(char.isprintable() or char == "\n" for char in text)
    first, *others = text.split("\n")
    assert first.endswith(
        r"job j1 failed: \x1b[2J\x1b]0;title\x07 \u202egnp.exe\r2026-01-01 INFO forged\u2028forged\x85forged"
    )
    assert others[0] == "    2026-01-01 INFO forged"
    assert any("ValueError" in line for line in others)
    assert all(line.startswith("    ") for line in others)


def test_an_unknown_format_is_refused():
    with pytest.raises(InvalidInput, match="text, json"):
        log_to_stderr("INFO", "xml")


@pytest.mark.parametrize("level", ["INFO", "WARNING"])
def test_a_worker_says_what_it_does_at_info_only(caplog, level):
    caplog.set_level(level, "stanchion.jobs")
    app = Stanchion("memory://")

    @app.task(name="greet")
    def greet() -> None: ...

    @app.task(name="wave", max_attempts=1)
    async def wave() -> None: ...

    jobs = [greet.enqueue(), wave.enqueue()]
    Worker(app, until_empty=True).run()
    said = sorted(record.getMessage().split(" in ")[0] for record in caplog.records if record.name == "stanchion.jobs")
    assert said == (sorted([f"done greet {jobs[0].id}", f"done wave {jobs[1].id}"]) if level == "INFO" else [])


def test_a_worker_process_logs_json(tmp_path):
    (tmp_path / "shop.py").write_text(
        "from stanchion import Stanchion\n"
        f"app = Stanchion('sqlite:///{tmp_path}/jobs.db')\n"
        "@app.task(name='greet')\ndef greet(): ...\n"
        "@app.task(name='fails', max_attempts=1)\ndef fails(): 1 / 0\n"
        "if __name__ == '__main__':\n    app.setup(); greet.enqueue(); fails.enqueue()\n"
    )
    subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, check=True)
    command = [
        sys.executable,
        "-c",
        "from stanchion.ops.cli import main; main()",
        "worker",
        "shop:app",
        "--until-empty",
        "--log-format",
        "json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    told = [json.loads(line) for line in done.stderr.splitlines()]
    by_task = {one["task"]: one for one in told if "task" in one}
    assert by_task["greet"]["outcome"] == "done"
    assert [one["level"] for one in told if "ZeroDivisionError" in one["message"]] == ["WARNING"]
