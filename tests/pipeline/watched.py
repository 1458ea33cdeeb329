"""A pipeline whose outcomes are recorded, and short ways to declare one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stanchion import Job, JobState, Pipeline, Stanchion, Worker
from stanchion.context import context_of
from stanchion.stores.records.outcomes import Outcome, Pass


class Watched:
    """A pipeline whose outcomes are recorded on their way to the store."""

    def __init__(self, app: Stanchion) -> None:
        self.app, self.etl = app, app.pipeline("etl")
        self.outcomes: list[Outcome] = []
        store = context_of(app).store
        settle = store.settle

        def settling(outcomes: Sequence[Outcome], *args: Any, **more: Any) -> list[JobState | None]:
            self.outcomes += outcomes
            return settle(outcomes, *args, **more)

        store.settle = settling  # type: ignore[method-assign]

    def run(self, **options: Any) -> Worker:
        """Run a worker until no item is due."""
        worker = Worker(self.app, **{"threads": 2, "until_empty": True, "poll": 0.02, **options})
        worker.run()
        return worker

    def get(self, item: Job) -> Job:
        """Return an item as it is now."""
        found = self.app.get(item.id)
        assert found is not None
        return found

    @property
    def passed(self) -> list[tuple[str, ...]]:
        """The queues that items have passed in memory, of each item that has."""
        return [tuple(one.queue for one in ended.passages) for ended in self.outcomes if isinstance(ended, Pass)]


def chain(etl: Pipeline, *functions: Callable[..., Any], **options: Any) -> None:
    """Declare stations `a`, `b`, `c` with these functions; options are those of `b`."""
    names = "abcdef"[: len(functions)]
    for place, (name, function) in enumerate(zip(names, functions, strict=True)):
        to = names[place + 1] if place + 1 < len(functions) else None
        etl.station(name, to=to, **(options if name == "b" else {}))(function)


def more(item: int) -> int:
    return item + 1


def figures(etl: Pipeline) -> list[tuple[int, ...]]:
    """Return of each station the items that came, and that are out, dropped, retried, dead and there."""
    return [(one.came, one.out, one.dropped, one.retried, one.dead, one.depth.total) for one in etl.status().stations]
