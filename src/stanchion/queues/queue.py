"""A queue: push, pop, reserve, inspect and operate."""

from __future__ import annotations

from collections.abc import Mapping

from stanchion.context.context import Context
from stanchion.context.queues.settings import checked_settings
from stanchion.core.names.partition_names import checked_partitioned, checked_queue, is_queue
from stanchion.queues.operating import Operating, without_schema
from stanchion.queues.pushing import Pushing
from stanchion.queues.reserving import Reserving
from stanchion.schemas.models import schema_from


class Queue(Pushing, Reserving, Operating):
    """A named queue of jobs. Made by `app.queue(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self._context, self.name = context, checked_queue(name)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self._context!r}>"


def stored_queues(context: Context) -> list[Queue]:
    """Return all queues in the store, by name, without those that another program named as no queue may be named."""
    names = (settings.name for settings in context.fresh_store.queues())
    return [Queue(context, name) for name in names if is_queue(name)]


def declared_queue(context: Context, name: str, settings: Mapping[str, object]) -> Queue:
    """Return a queue. Settings given here are stored at its first use by this process, or by `setup`."""
    if settings.get("schema") is not None:
        context.schemas.declare(checked_queue(name), schema_from(settings["schema"]))
    if settings := without_schema(settings):
        if "partitions" in settings:
            checked_partitioned(name)
            context.use_partitions()
        context.declared.declare(checked_queue(name), checked_settings(settings))
    return Queue(context, name)
