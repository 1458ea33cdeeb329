"""The story of a job: its known steps, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from stanchion.core.text.durations import spelled
from stanchion.core.text.redaction import Texts
from stanchion.jobs.facts import has_older_waits
from stanchion.jobs.job import Job, PastWait
from stanchion.ops.expiry import has_expired
from stanchion.ops.web.show.foreign import cut
from stanchion.ops.web.show.present import Step, attempts, present_step
from stanchion.ops.words import waited
from stanchion.telemetry.failures import LOST


def steps(job: Job, redaction: Texts, waits_for: str | None, waits: Sequence[PastWait] = ()) -> list[Step]:
    """Return the known steps of a job, newest first. `waits`: finished ones."""
    order = {"now": 3, "wait": 2, "error": 1}
    found = [(step.at, order["error"], step) for step in _failures(job, redaction)]
    found += [(step.at, 0, step) for step in _way(job)]
    found += [(step.at, order["wait"], step) for step in _waits(job, waits)]
    if (last := present_step(job, waits_for)) is not None:
        found.append((last.at, order["now"], last))
    return [step for _, _, step in sorted(found, key=lambda one: one[:2], reverse=True)]


def _failures(job: Job, redaction: Texts) -> Iterator[Step]:
    for entry in job.errors[:-1] if has_expired(job) else job.errors:
        at, began, until = (time_in(entry, name) for name in ("at", "started", "until"))
        assert at is not None  # noqa: S101 - each entry has it
        error, trace = (redaction.text(cut(str(entry.get(name) or ""))) for name in ("error", "traceback"))
        took = spelled((at - began).total_seconds()) if began and at >= began else ""
        said = [f"On {entry['worker']}."] if entry.get("worker") else []
        if until is not None:
            wait = (until - at).total_seconds()
            said.append(
                f"Backed off for {spelled(wait)}, until {until:%H:%M:%S}." if wait > 0 else "Ready again at once."
            )
        yield Step(at, "risk", _title(entry), " ".join(said), error, trace, took)


def _waits(job: Job, waits: Sequence[PastWait]) -> Iterator[Step]:
    for number, (kind, name, since, until) in enumerate(waits):
        older = (
            " It has waited before; only the last ten waits are kept." if has_older_waits(job) and not number else ""
        )
        title = waited(kind, name, (until - since).total_seconds())
        yield Step(since, "waiting", title, f"Until {until:%H:%M:%S}.{older}")


def _title(entry: Mapping[str, object]) -> str:
    if times := entry.get("times"):
        return f"Put off {times} times: no worker knows its task"
    if str(entry.get("error", "")).startswith(LOST):
        return f"Attempt {entry['attempt']} lost its worker" if entry.get("worker") else "Lost its lease"
    return f"Attempt {entry['attempt']} failed"


def time_in(entry: dict[str, Any], name: str) -> datetime | None:
    """Return a time of an entry of errors; None without one."""
    return datetime.fromtimestamp(float(entry[name]), UTC) if name in entry else None


def _way(job: Job) -> Iterator[Step]:
    stops = job.trail
    for before, stop in pairwise(stops):
        count = before.attempts or 0
        yield Step(stop.entered_at, "ready", f"Moved to {stop.queue}", f"From {before.queue}, after {attempts(count)}.")
    origin = f"As a copy of {job.origin}." if job.origin else ""
    yield Step(stops[0].entered_at if stops else job.enqueued_at, "ready", f"Enqueued in {stops[0].queue}", origin)
