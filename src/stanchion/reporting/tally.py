"""The figures of a report, counted by Python job by job. Memory: some 100 bytes for each item of a job."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stanchion.core.service_levels import BANDS
from stanchion.core.text.error_kinds import group_in, kind_of
from stanchion.reporting import figures as shared
from stanchion.reporting.figures import IDS, MOST_ATTEMPTS, SHARES, STATES, Figures, jain, named, step_for, steps
from stanchion.reporting.finished import Finished


def _doubles() -> array[float]:
    return array("d")


@dataclass
class _Band:
    jobs: int = 0
    attempts_kept: int = 0
    pickup: array[float] = field(default_factory=_doubles)
    run: array[float] = field(default_factory=_doubles)


@dataclass
class _Task:
    jobs: int = 0
    dead: int = 0
    failures: int = 0
    run: array[float] = field(default_factory=_doubles)


@dataclass
class _Tenant:
    jobs: int = 0
    run_total: float = 0.0
    pickup: array[float] = field(default_factory=_doubles)


@dataclass
class _Error:
    kind: str
    example: str
    count: int = 0
    first: float = math.inf
    last: float = -math.inf
    dead: int = 0
    newest: list[tuple[float, str]] = field(default_factory=list)


@dataclass
class _Series:
    """Moments with a number each."""

    at: array[float] = field(default_factory=_doubles)
    value: array[float] = field(default_factory=_doubles)

    def add(self, at: float, value: float, times: int) -> None:
        """Add a moment, so many times."""
        _add(self.at, at, times)
        _add(self.value, value, times)


def _add(values: array[float], value: float, times: int) -> None:
    values.extend([value] * times)


class Tally:
    """Counts jobs, each as its items; `figures` gives the figures of all that were added."""

    def __init__(self) -> None:
        self.jobs = self.failures = 0
        self._states: dict[str, array[float]] = {state: _doubles() for state in STATES}
        self._attempts: Counter[tuple[int, str]] = Counter()
        self._bands: defaultdict[int, _Band] = defaultdict(_Band)
        self._pickup: defaultdict[int, _Series] = defaultdict(_Series)
        self._tasks: defaultdict[tuple[str, str], _Task] = defaultdict(_Task)
        self._tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
        self._errors: dict[tuple[str, str, str], _Error] = {}
        self._stations: defaultdict[str, _Series] = defaultdict(_Series)

    def add(self, jobs: Iterable[Finished]) -> None:
        """Count these jobs."""
        for job in jobs:
            self.jobs += job.items
            self.failures += job.failures * job.items
            _add(self._states[job.state], job.finished, job.items)
            self._attempts[min(job.attempts, MOST_ATTEMPTS), job.state] += job.items
            self._add_to_band(job)
            self._add_to_task(job)
            if job.tenant is not None:
                self._add_to_tenant(job.tenant, job)
            if job.errors:
                self._add_errors(job)
            if "." in job.queue:
                self._add_to_stations(job)

    def _add_to_band(self, job: Finished) -> None:
        band = self._bands[job.band]
        band.jobs += job.items
        band.attempts_kept += job.items * (job.attempts <= BANDS[job.band].max_attempts)
        if job.pickup is not None:
            _add(band.pickup, job.pickup, job.items)
            self._pickup[job.band].add(job.finished, job.pickup, job.items)
        if job.run is not None:
            _add(band.run, job.run, job.items)

    def _add_to_task(self, job: Finished) -> None:
        task = self._tasks[job.queue, job.task]
        task.jobs += job.items
        task.dead += job.items * (job.state == "dead")
        task.failures += job.failures * job.items
        if job.run is not None:
            _add(task.run, job.run, job.items)

    def _add_to_tenant(self, name: str, job: Finished) -> None:
        tenant = self._tenants[name]
        tenant.jobs += job.items
        tenant.run_total += (job.run or 0.0) * job.items
        if job.pickup is not None:
            _add(tenant.pickup, job.pickup, job.items)

    def _add_errors(self, job: Finished) -> None:
        for entry in job.errors:
            key, kind = (group_in(entry, job.task), job.queue, job.task), kind_of(entry["error"])
            one = self._errors.setdefault(key, _Error(kind, entry["error"]))
            one.count += job.items
            one.kind, one.example = min(one.kind, kind), min(one.example, entry["error"])
            one.first, one.last = min(one.first, entry["at"]), max(one.last, entry["at"])
        if job.state == "dead":
            one.dead += job.items
            one.newest = sorted([*one.newest, (job.finished, job.id)], reverse=True)[:IDS]

    def _add_to_stations(self, job: Finished) -> None:
        pipeline = job.queue.partition(".")[0]
        passed = [(f"{pipeline}.{stop.station}", stop.attempts, stop.at) for stop in job.route]
        for station, attempts, at in [*passed, (job.queue, job.attempts, job.finished)]:
            self._stations[station].add(at, attempts, job.items)

    # -- the figures

    def figures(self, order: Sequence[str] = ()) -> Figures:
        """Return the figures. `order`: stations in the order of their pipelines."""
        whole = self._whole()
        if not self.jobs:
            return {"whole": whole, "step": None}
        step = step_for(whole["last"] - whole["first"])
        moments = steps(whole["first"], whole["last"], step)
        return {
            "whole": whole,
            "step": step,
            "throughput": self._throughput(moments, step),
            "pickup": self._pickup_over_time(moments, step),
            "bands": [shared.band(number, _band(number, self._bands[number])) for number in sorted(self._bands)],
            "tasks": self._by_task(),
            "attempts": self._by_attempts(),
            "errors": self._by_kind(),
            "tenants": self._by_tenant(),
            "stations": self._by_station(step, whole, order),
        }

    def p95(self) -> float | None:
        """Return the 95th percentile of all pick-up delays."""
        return _rank(sorted(value for band in self._bands.values() for value in band.pickup), 0.95)

    def _whole(self) -> Figures:
        ends = [(min(at), max(at)) for at in self._states.values() if at]
        return {
            "jobs": self.jobs,
            **{state: len(at) for state, at in self._states.items()},
            "failures": self.failures,
            "run_total": math.fsum(value for task in self._tasks.values() for value in task.run),
            "first": min((first for first, _ in ends), default=None),
            "last": max((last for _, last in ends), default=None),
            "queues": len({queue for queue, _ in self._tasks}),
            "tenants": len(self._tenants),
        }

    def _throughput(self, moments: range, step: int) -> list[Figures]:
        counted = {state: Counter(math.floor(at / step) * step for at in ends) for state, ends in self._states.items()}
        return [{"at": at, **{state: counted[state][at] for state in STATES}} for at in moments]

    def _pickup_over_time(self, moments: range, step: int) -> list[Figures]:
        found = []
        for number in sorted(self._pickup):
            by_step: defaultdict[int, list[float]] = defaultdict(list)
            series = self._pickup[number]
            for at, value in zip(series.at, series.value, strict=True):
                by_step[math.floor(at / step) * step].append(value)
            p95 = [_rank(sorted(by_step[at]), 0.95) if at in by_step else None for at in moments]
            found.append({"band": BANDS[number].name, "p95": p95})
        return found

    def _by_task(self) -> Figures:
        rows: list[Figures] = [
            {
                "queue": queue,
                "task": task,
                "jobs": one.jobs,
                "dead": one.dead,
                "failures": one.failures,
                "run_total": math.fsum(one.run),
                "run": named(_percentiles(one.run)),
            }
            for (queue, task), one in self._tasks.items()
        ]
        rows.sort(key=lambda row: (-row["run_total"], -row["jobs"], row["queue"], row["task"]))
        return {"rows": rows[: shared.TASKS], "more": len(rows) > shared.TASKS}

    def _by_attempts(self) -> list[Figures]:
        numbers = sorted({attempts for attempts, _ in self._attempts})
        return [{"attempts": n, **{state: self._attempts[n, state] for state in STATES}} for n in numbers]

    def _by_kind(self) -> Figures:
        rows: list[Figures] = [
            {
                "group": group,
                "error": one.kind,
                "queue": queue,
                "task": task,
                "count": one.count,
                "example": one.example,
                "first": one.first,
                "last": one.last,
                "dead": one.dead,
                "ids": [job for _, job in one.newest],
            }
            for (group, queue, task), one in self._errors.items()
        ]
        rows.sort(key=lambda row: (-row["count"], row["error"], row["queue"], row["task"], row["group"]))
        return shared.errors(rows[: shared.ERRORS])

    def _by_tenant(self) -> Figures:
        rows: list[Figures] = [
            {
                "tenant": name,
                "jobs": one.jobs,
                "run_total": one.run_total,
                "pickup_mean": math.fsum(one.pickup) / len(one.pickup) if one.pickup else None,
                "pickup": named(_percentiles(one.pickup)),
                "share": one.jobs / sum(each.jobs for each in self._tenants.values()),
            }
            for name, one in self._tenants.items()
        ]
        rows.sort(key=lambda row: (-row["jobs"], row["tenant"]))
        fairness = {"jobs": "jobs", "run_time": "run_total", "pickup_mean": "pickup_mean"}
        return {
            "count": len(rows),
            "rows": rows[: shared.TENANTS],
            "fairness": {name: _fairness([row[column] for row in rows]) for name, column in fairness.items()},
        }

    def _by_station(self, step: int, whole: Figures, order: Sequence[str]) -> list[Figures]:
        rows: list[Figures] = []
        for station, series in self._stations.items():
            by_step: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
            for at, attempts in zip(series.at, series.value, strict=True):
                by_step[math.floor(at / step) * step].append((at, attempts))
            rows += [
                {
                    "station": station,
                    "at": at,
                    "items": len(passed),
                    "retries": int(sum(attempts - 1 for _, attempts in passed)),
                    "first": min(moment for moment, _ in passed),
                    "last": max(moment for moment, _ in passed),
                }
                for at, passed in by_step.items()
            ]
        return shared.stations(rows, step, whole["first"], whole["last"], order)


def _band(number: int, band: _Band) -> Figures:
    one = BANDS[number]
    return {
        "jobs": band.jobs,
        "pickup": _percentiles(band.pickup),
        "run": _percentiles(band.run),
        "started": len(band.pickup),
        "ended": len(band.run),
        "age_kept": sum(value <= one.max_age for value in band.pickup),
        "run_kept": sum(value <= one.max_run for value in band.run),
        "attempts_kept": band.attempts_kept,
    }


def _percentiles(values: Iterable[float]) -> list[float] | None:
    ordered = sorted(values)
    return [_of_rank(ordered, share) for share in SHARES] if ordered else None


def _rank(ordered: Sequence[float], share: float) -> float | None:
    """Return the value that so large a share of the values does not exceed; None without values."""
    return _of_rank(ordered, share) if ordered else None


def _of_rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _fairness(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return jain(math.fsum(known), math.fsum(value * value for value in known), len(known))
