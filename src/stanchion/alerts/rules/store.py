"""Rules about the store and managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stanchion.alerts.records import Action, Alert
from stanchion.alerts.rules.finding import Found
from stanchion.alerts.snapshot import Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.core.names.partition_names import logical_name
from stanchion.core.text.durations import spelled
from stanchion.stores.records.managers import ManagerStatus
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.workers import WorkerRow


def store(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """The store does not answer, has another schema, or answers slowly."""
    actions = (Action("Check the database, then the connection and the schema", "stanchion setup"),)
    if seen.trouble is not None:
        said = f"The store can't be used: {seen.trouble}"
        yield Found(
            "store",
            Alert("now", "store", "store", "store", said, limits.store, limits.store, "seconds", actions=actions),
        )
    elif seen.seconds >= limits.store:
        said = f"The store answers in {spelled(seen.seconds)}, the limit is {spelled(limits.store)}."
        yield Found(
            "store", Alert("soon", "store", "store", "store", said, seen.seconds, limits.store, "seconds", None)
        )


def lateness(one: ManagerStatus, queues: Iterable[QueueSettings], workers: Iterable[WorkerRow]) -> tuple[float, str]:
    """Return how many seconds a job that a manager could send has been due, and its queue.

    Jobs of a paused or limited queue, and jobs that only busy workers serve, do not wait for their manager.
    """
    free = {peer.worker for peer in one.receivers if peer.connected and peer.in_flight < peer.capacity}
    served = {logical_name(queue) for worker in workers if worker.id in free for queue in worker.queues}
    held = {queue.name for queue in queues if queue.paused or (queue.max_rate, queue.max_running) != (None, None)}
    lags = ((each.lag, logical_name(each.queue)) for each in one.queues)
    return max((each for each in lags if each[1] in served - held), default=(0.0, ""))


def manager(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A manager does not answer, has lost its store, or is late with jobs that live workers wait for."""
    settings = [queue.settings for queue in seen.queues]
    for one in seen.managers:
        lag, queue = lateness(one, settings, seen.workers)
        if not one.answered:
            said = f"The manager {one.address} does not answer."
        elif not one.store_answers:
            said = f"The store of the manager {one.address} does not answer; {one.pushes + one.outcomes} writes wait."
        elif lag >= limits.manager:
            limit = spelled(limits.manager)
            said = f"The manager {one.address} is {spelled(lag)} behind in {queue}, the limit is {limit}."
        else:
            continue
        value = max(lag, limits.manager) if one.answered and one.store_answers else limits.manager
        yield Found(
            f"manager:{one.address}",
            Alert(
                *("soon", "manager", "manager", one.address, said),
                value=value,
                limit=limits.manager,
                unit="seconds",
                actions=(Action("See what each manager does", "stanchion manager status --url grpc://HOST:PORT"),),
            ),
        )
