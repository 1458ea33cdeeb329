"""Rules about the store and managers."""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.alerts.records import Action, Alert
from stanchion.alerts.rules.found import Found
from stanchion.alerts.rules.queues import serving
from stanchion.alerts.snapshot import Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.core.durations import spelled
from stanchion.core.partition_names import logical_name


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


def manager(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A manager does not answer, has lost its store, or is late with jobs that live workers wait for."""
    waited_for = {queue.settings.name for queue in seen.queues if not queue.settings.paused and serving(seen, queue)}
    for one in seen.managers:
        lags = ((each.lag, logical_name(each.queue)) for each in one.queues)
        lag, queue = max((each for each in lags if each[1] in waited_for), default=(0.0, ""))
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
