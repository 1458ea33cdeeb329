"""The registry: work by name, and the queues that the workers of this process serve."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from stanchion.context.includes import Includes
from stanchion.context.unknown_work import Unknown
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import UnknownTask

if TYPE_CHECKING:
    from stanchion.context.work import DeclaredTopic, QueueWork, Work
    from stanchion.stores.protocol import Store
    from stanchion.stores.records.jobs import JobRow


class Registry:
    """The tasks, stations, pipelines and schedules that the code of one process declares."""

    def __init__(self) -> None:
        self.tasks: dict[str, Work] = {}
        self.built_in: dict[str, Work] = {}
        """Tasks that every app has; they add no queue to its workers."""
        self.stations: dict[str, QueueWork] = {}
        """The stations of all pipelines, by the names of their queues."""
        self.pipelines: dict[str, Any] = {}
        """The pipelines, by name; each is a `pipelines.plan.PipelinePlan`."""
        self.topics: dict[str, Any] = {}
        """The topics that this process has used, each a `topics.topic.Topic`."""
        self.declared_topics: dict[str, DeclaredTopic] = {}
        """The subscriptions that tasks declare, by topic."""
        self.subscribed: set[str] = set()
        """The queues of subscriptions whose jobs call tasks of this process, and others with such jobs."""
        self.finder: Callable[[str], Work | None] | None = None
        """Returns a task by its name that is not in `tasks`, or None; it raises nothing."""
        self.includes = Includes()
        """Modules that declare more of it, and are not imported yet."""
        self.crons: dict[str, Any] = {}
        """The schedules; each is a `cron.schedule.Declared`."""

    def __getstate__(self) -> dict[str, object]:
        """Leave out the schedules, which only workers need."""
        return {**self.__dict__, "crons": {}}

    def task_named(self, name: str) -> Work:
        """Return a task by name. Raises UnknownTask."""
        self.includes.load()
        task = self._named(name)
        if task is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(
                f"no task {name!r} is registered in this process (registered: {known}); "
                f"import the module that defines it, or keep the old name with @app.task(name=...)"
            )
        return task

    def work_of(self, row: JobRow) -> Work | None:
        """Return the work of a job: the task it names or, for a bare payload, the station of its queue."""
        if row.task is None:
            return self.stations.get(logical_name(row.queue))
        return self._named(row.task)

    def _named(self, name: str) -> Work | None:
        return self.tasks.get(name) or self.built_in.get(name) or (self.finder(name) if self.finder else None)

    def known_work_of(self, row: JobRow) -> Work:
        """Return the work of a job. Raises Unknown if this code lacks it."""
        name = row.task
        if name is not None and (task := self.tasks.get(name)) is not None:  # the usual case; this runs for each job
            return task
        self.includes.load()
        if (work := self.work_of(row)) is not None:
            return work
        if name is not None:
            raise Unknown(
                name,
                f"no task {name!r} is registered here",
                "import the module that defines it, or keep the old name with @app.task(name=...)",
            )
        raise Unknown(
            queue := logical_name(row.queue),
            f"no station works on the bare payloads of queue {queue!r} here",
            f"import the pipeline that has it, or take the payloads with app.queue({queue!r}).reserve()",
        )

    def stored_result(self, task: str | None, value: object) -> object:
        """Return the result of a task as it is stored. Raises ResultMisfit if the task says that it returns another."""
        work = None if task is None else self.tasks.get(task)
        return value if work is None or work.models is None else work.models.stored_result(value)

    def given_result(self, task: str | None, value: object) -> object:
        """Return a stored result as the task returned it, if this process has the task. Raises ResultMisfit."""
        work = None if task is None else self.tasks.get(task)
        return value if work is None or work.models is None else work.models.given_result(value)

    def is_async(self, row: JobRow) -> bool:
        """Return whether a job runs on an event loop."""
        work = self.work_of(row)
        return work is not None and work.is_async

    def own_queues(self) -> list[str]:
        """Return the queues of the tasks, schedules and subscriptions, and of the stations that workers can run."""
        self.includes.load()
        stations = {name for name, station in self.stations.items() if station.on_workers}
        scheduled = (one.plan.job.queue for one in self.crons.values())
        return sorted(stations.union(self.subscribed, scheduled, (task.queue for task in self.tasks.values())))

    def queues_with(self, queue: str) -> Collection[str]:
        """Return a queue and the queues that its items may move to."""
        station = self.stations.get(queue)
        return (queue,) if station is None else station.queues

    def check_worked(self, queues: Collection[str]) -> None:
        """Raise InvalidInput unless workers can serve these queues."""
        for name, station in self.stations.items():
            if name in queues:
                station.check_worked()

    def prepare(self, store: Store, queues: Collection[str]) -> None:
        """Make what the stations of these queues need in the store, such as tables. Raises InvalidInput."""
        for name, station in self.stations.items():
            if name in queues:
                station.prepare(store)
