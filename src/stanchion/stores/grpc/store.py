"""The store behind managers: each verb of the port is a call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from stanchion.errors import InvalidInput
from stanchion.stores.grpc import CAPABILITIES
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.joining import Commits, ManagersDatabase
from stanchion.stores.grpc.pieces import SCAN_SECONDS, Pieces
from stanchion.stores.grpc.pushing.push import Pushing
from stanchion.stores.grpc.receiving.receivers import Receivers
from stanchion.stores.grpc.repeats import Repeats
from stanchion.stores.grpc.status import Statuses
from stanchion.stores.grpc.wakeup import StreamedSignals
from stanchion.stores.ports import BehindManagers, Extensible, ResultTables, as_port
from stanchion.stores.protocol import Port, Store
from stanchion.stores.records.calls import seconds_for
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange, FlowNode
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Extend, Outcome, Progress
from stanchion.stores.records.query import Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay, default_delay
from stanchion.stores.rules.lifecycle.outcomes import have_rows
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS


class GrpcStore(Extensible):
    """Jobs in the store of managers."""

    lost_lease_delay: LostLeaseDelay = staticmethod(default_delay)
    """Not used: managers return lost jobs by the default retry policy."""

    capabilities: Capabilities
    """Capabilities of the managers' store."""

    def __init__(self, channels: Channels, database: Store | None = None) -> None:
        self._channels, self._signals = channels, StreamedSignals(channels)
        self._calls = calls = Calls(channels)
        self._pieces = pieces = Pieces(calls)
        self._pushing = Pushing(channels, calls, pieces)
        self._receivers = Receivers(channels, calls, pieces, self._signals.listeners)
        self._signals.listeners.fed, self._signals.listeners.came = self._receivers.fed, self._receivers.came
        statuses = Statuses(channels, calls)
        self.manager_status = statuses.manager_status
        self.on_stop, self.holds = self._receivers.on_stop, self._receivers.holds
        self.spread, self.feeds = self._receivers.spread, self._receivers.feeds
        self._database = ManagersDatabase(database, statuses.sessions, channels.address.shown)
        self._commits = Commits(self._receivers.held_leases, self._receivers.settled_elsewhere)
        self.transaction = self._database.transaction
        repeats = Repeats(calls)
        self.listen = self._signals.listen
        self.fetch, self.select, self.flow_ends = pieces.fetch, pieces.select, pieces.flow_ends
        self.delete, self.compare_and_set = repeats.delete, repeats.compare_and_set
        self.publish = repeats.publish

    def __getattr__(self, name: str) -> object:
        """Ask a manager for the capabilities, at their first use."""
        if name != "capabilities":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self.check()
        return self.capabilities

    @property
    def clock_offset(self) -> float:
        """Always 0: a client can't move the clock of a manager's store."""
        return 0.0

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        if seconds:
            raise InvalidInput("a client can't move the clock of a manager's store; test with a local store")

    def extension(self, port: type[Port]) -> Port | None:
        if port is ResultTables:
            return self._database.store.extension(port) if self._database.given else None
        return as_port(self, port) if port is BehindManagers else super().extension(port)

    # -- life of the store itself

    def check(self) -> None:
        found: Capabilities = self._calls.make("check")
        own = CAPABILITIES
        joins = self._database.given
        # Columns of Arrow don't go through a manager.
        found = replace(found, arrow=False, prepared_jobs=False)
        self.capabilities = replace(found, name=own.name, joins_transactions=joins, extra=own.extra)

    def close(self) -> None:
        """Close streams and channels; a later call opens them again."""
        self._signals.close()
        self._commits.close()
        self._receivers.close()
        self._pushing.close()
        self._channels.close()
        self._database.close()

    def setup(self, *, dry_run: bool = False) -> list[str]:
        found: list[str] = self._calls.make("setup", dry_run=dry_run)
        return found

    def now(self) -> int:
        found: int = self._calls.make("now")
        return found

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, object], tx: object = None) -> QueueSettings:
        if tx is not None:
            return self._database.store.configure(queue, changes, tx)
        found: QueueSettings = self._calls.make("configure", queue=queue, changes=changes)
        return found

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        found: list[QueueSettings] = self._calls.make("queues", names=_listed(names))
        return found

    def drop_queue(self, queue: str) -> int:
        found: int = self._calls.make("drop_queue", queue=queue)
        return found

    # -- jobs in and out

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        if tx is not None:
            return self._database.store.push(jobs, tx, claim, repeat=repeat)
        if claim is None and not repeat:
            return self._pushing.push(jobs)
        asked = {} if claim is None else {"claim": claim}
        return self._pieces.all("push", "jobs", jobs, repeat=repeat, **asked)

    def claim(self, claim: Claim) -> Claimed:
        if (claimed := self._receivers.claim(claim)) is not None:
            return claimed
        found: Claimed = self._calls.make("claim", seconds_for(claim.limit), claim=claim)
        return found

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        if tx is not None:
            return self._settled_in(tx, outcomes, repeat)
        if have_rows(outcomes):
            return self._settled_with_rows(outcomes, repeat)
        return self._receivers.settle(outcomes, repeat=repeat)

    def _settled_in(self, tx: object, outcomes: Sequence[Outcome], repeat: bool) -> list[JobState | None]:
        store = self._database.store
        states = store.settle(outcomes, tx, repeat=repeat)
        ends = [
            one.lease
            for one, state in zip(outcomes, states, strict=True)
            if state is not None and not isinstance(one, (Extend, Progress))
        ]
        self._commits.wait_for(store, ends, tx)
        return states

    def _settled_with_rows(self, outcomes: Sequence[Outcome], repeat: bool) -> list[JobState | None]:
        """Settle outcomes of which some have rows, which only the database takes; then free the room of their jobs."""
        states = self._database.store.settle(outcomes, repeat=repeat)
        ends = [one.lease for one in outcomes if not isinstance(one, (Extend, Progress))]
        self._receivers.settled_elsewhere(ends)
        return states

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        # Not repeated: right after an outage live workers look dead.
        found: list[JobRow] = self._calls.once("recover", limit=limit, as_of=as_of)
        return found

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        return self._pieces.all("adopt", "rows", rows)

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        self._pieces.all("stage", "jobs", jobs, write=write, attempt=attempt)

    def unstage(self, write: str) -> None:
        self._calls.make("unstage", write=write)

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        beat: Beat = self._calls.make("beat", workers=workers)
        self._receivers.beat(workers)
        return beat

    def leave(self, worker: str) -> None:
        self._receivers.leave(worker)
        self._calls.make("leave", worker=worker)

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        found: list[WorkerRow] = self._calls.make("workers", holders=holders)
        return found

    # -- reading

    def partition(self, query: Query, parts: int) -> list[Query]:
        found: list[Query] = self._calls.make("partition", SCAN_SECONDS, query=query, parts=parts)
        return found

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        found: dict[str, QueueStats] = self._calls.make("stats", queues=queues, fields=fields)
        return found

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        found: dict[int, int] = self._calls.make("lane_depths", queue=queue, lanes=lanes, at_most=at_most)
        return found

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        found: list[JobState | None] = self._calls.make("cancel", seconds_for(len(ids)), ids=ids)
        return found

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        found: list[Redriven] = self._calls.make("retry", seconds_for(len(ids)), ids=ids)
        return found

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        found: list[str] = self._calls.make("maintain", SCAN_SECONDS, seconds=seconds)
        return found

    # -- semaphores, flows, values

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        if tx is not None:
            return self._database.store.set_semaphore(name, capacity, declared=declared, tx=tx)
        found: bool = self._calls.make("set_semaphore", name=name, capacity=capacity, declared=declared)
        return found

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        found: list[SemaphoreRow] = self._calls.make("semaphores", names=_listed(names))
        return found

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        if tx is not None:
            return self._database.store.change_flows(changes, tx)
        found: list[bool] = self._calls.make("change_flows", SCAN_SECONDS, changes=changes)
        return found

    def flow_nodes(self, root: str) -> list[FlowNode]:
        found: list[FlowNode] = self._calls.make("flow_nodes", root=root)
        return found

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        found: list[VersionedValue] = self._calls.make("values", kind=kind, names=_listed(names))
        return found


def _listed(names: Iterable[str] | None) -> list[str] | None:
    """Return names that can be sent twice."""
    return None if names is None else list(names)
