"""Reads a snapshot by the verbs of a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from stanchion.alerts.owners import owners_of_alerts
from stanchion.alerts.reading.errors import failing, heaviest, read_tallies
from stanchion.alerts.reading.heads import as_they_could_run
from stanchion.alerts.reading.jobs import JobReads
from stanchion.alerts.reading.parts import read_schedules, read_semaphores, read_stations, read_streams
from stanchion.alerts.reading.windows import limits_in, read_values, windows_in
from stanchion.alerts.snapshot import QueueSample, Snapshot
from stanchion.context.queues.pauses import pauses_of
from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.pipelines.plan import PipelinePlan
from stanchion.stores.letters import read_letters
from stanchion.stores.ports import BehindManagers
from stanchion.stores.protocol import Store
from stanchion.stores.records.managers import ManagerStatus


def snapshot_of(store: Callable[[], Store], pipelines: Iterable[PipelinePlan]) -> Snapshot:
    """Read a snapshot of a store, which is opened for it. A store that can't be used is a snapshot, too.

    `pipelines`: declared by the code of this process.
    """
    try:
        return _read(store(), pipelines)
    except (StoreUnavailable, SchemaMismatch) as error:
        return Snapshot(trouble=str(error))


def _read(store: Store, pipelines: Iterable[PipelinePlan]) -> Snapshot:
    store.check()
    asked = time.monotonic()
    now = store.now()
    seconds = time.monotonic() - asked
    settings = store.queues()
    stats = store.stats([one.name for one in settings], ["states", "items", "totals", "heads"])
    letters = read_letters(store, settings, stats)
    work = [letters.work_of(one.name, stats[one.name]) for one in settings]
    queues = as_they_could_run(store, [*map(QueueSample, settings, work)])
    workers = tuple(store.workers())
    jobs = JobReads(store, now, queues, letters)
    live, whole = jobs.live()
    known = read_values(store)
    recent, hour = windows_in(store, known, now, queues)
    dead = (*jobs.ended(), *jobs.letters())
    tallies = read_tallies(store, failing(queues, dead, live, (recent, hour)))
    return Snapshot(
        at=now,
        seconds=seconds,
        queues=queues,
        workers=workers,
        live=live,
        whole=whole,
        running=jobs.running(),
        dead=dead,
        letters=letters,
        tallies=tallies,
        errors=heaviest(tallies, now),
        put_off=jobs.put_off(live),
        arrivals=jobs.arrivals(),
        pauses=pauses_of(store, paused) if (paused := [one.name for one in settings if one.paused]) else {},
        overdue=jobs.overdue(),
        semaphores=read_semaphores(store),
        streams=read_streams(store, workers, now),
        schedules=read_schedules(store, now),
        stations=read_stations(store, pipelines),
        managers=ask_managers(store),
        recent=recent,
        hour=hour,
        limits=limits_in(known),
        owners=owners_of_alerts(store, now),
    )


def ask_managers(store: Store) -> tuple[ManagerStatus, ...]:
    """Return the status of a store's managers; nothing for a store that is used without."""
    managers = store.extension(BehindManagers)
    return () if managers is None else tuple(managers.manager_status())
