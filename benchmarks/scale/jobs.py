"""Jobs from push to settlement: group commits whose sizes follow the load, receivers, deaths of managers.

Each job is an object of its own. The receivers of a shard are a number: how many of them there are, and how much room
they have together. The manager gives a job to the least busy one, so a job waits exactly if all are full, and the jobs
of a group go to as many receivers as there are jobs, up to all of them. Which one it is changes nothing else, as long
as receivers do not die; here they do not. Producers, too, are a number.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random

from benchmarks.scale.costs import Costs, Size
from benchmarks.scale.events import Events
from benchmarks.scale.groups import Group
from benchmarks.scale.leading import Leader
from benchmarks.scale.owners import Owners


class Job:
    """A job. `state`: new, queued, running or done; as the store has it."""

    __slots__ = ("name", "pushed_at", "sent", "shard", "state")

    def __init__(self, shard: Shard, name: str, pushed_at: float) -> None:
        self.shard, self.name, self.pushed_at = shard, name, pushed_at
        self.state, self.sent = "new", 0


class Shard:
    """A partition or a database: its slices, the managers that serve it, its receivers and the jobs that wait.

    `room`: of one receiver.
    """

    def __init__(self, names: Sequence[str], leaders: list[Leader], receivers: int, room: int) -> None:
        self.names, self.leaders, self.receivers, self.room = names, leaders, receivers, receivers * room
        self.queued: defaultdict[str, deque[Job]] = defaultdict(deque)
        self.orphans: defaultdict[str, list[Job]] = defaultdict(list)
        """Those of a manager that has died: stored as running and never sent, or in its window."""


class Jobs:
    """All jobs, and what they cost."""

    def __init__(self, events: Events, owners: Owners, size: Size, costs: Costs, random: Random) -> None:
        self._events, self._owners, self._size, self._costs, self._random = events, owners, size, costs, random
        self._groups: dict[tuple[str, Shard, Leader], Group[Job]] = {}
        owners.begun = self._begun
        self.counts: Counter[str] = Counter()
        """pushed, done, sent, sent twice, given back, repeated; and what the groups count."""
        self.starts: list[float] = []
        """Seconds from push to start."""
        self.shard_of: dict[str, Shard] = {}
        """By the names of slices."""
        self.pushing = True

    def arrive(self, shard: Shard, rate: float, left: int = -1) -> None:
        """Push a job, and others after it, as random events at this rate; `left`: how many, -1 without end."""
        if not self.pushing or left == 0:
            return
        job = Job(shard, self._random.choice(shard.names), self._events.now)
        self.counts["pushed"] += 1
        self._push(job)
        self._events.after(self._random.expovariate(rate), self.arrive, shard, rate, left - 1)

    # -- pushes

    def _push(self, job: Job) -> None:
        owner = self._owners.of.get(job.name) if self._size.routed else None
        leader = owner or self._any(job.shard)
        self._group("push", job.shard, leader).add(job)

    def _any(self, shard: Shard) -> Leader:
        """Return a manager alive of those that serve a shard."""
        while not (leader := self._random.choice(shard.leaders)).alive:
            pass
        return leader

    def _push_begins(self, leader: Leader, jobs: Sequence[Job]) -> None:
        """Reserve room for those that can run at once."""
        for job in jobs:
            shard = job.shard
            if self._owners.of.get(job.name) is leader and not shard.queued[job.name] and shard.room > 0:
                shard.room -= 1
                job.state = "starting" if job.state == "new" else job.state

    def _pushed(self, leader: Leader, jobs: Sequence[Job]) -> None:
        starting = [job for job in jobs if job.state == "starting"]
        self._send(leader, starting)
        for job in jobs:
            if job.state == "new":
                job.state = "queued"
                self._queue(job)

    def _queue(self, job: Job) -> None:
        job.shard.queued[job.name].append(job)
        owner = self._owners.of.get(job.name)
        if owner is not None:
            self._events.after(self._costs.signal_wait, self._claim, job.shard, owner)

    # -- claims

    def _claim(self, shard: Shard, leader: Leader) -> None:
        """Claim what waits in the slices of a manager, if no claim is under way."""
        group = self._group("claim", shard, leader)
        if group.busy or not leader.alive:
            return
        for name, queued in shard.queued.items():
            if queued and self._owners.of.get(name) is leader:
                while queued and shard.room > 0 and len(group.waiting) < self._costs.group_most:
                    shard.room -= 1
                    group.waiting.append(queued.popleft())
        group.begin()

    def _claimed(self, leader: Leader, jobs: Sequence[Job]) -> None:
        won = [job for job in jobs if job.state == "queued"]
        self._send(leader, won)
        self._claim(jobs[0].shard, leader)

    def _send(self, leader: Leader, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        self.counts["messages"] += min(len(jobs), jobs[0].shard.receivers)
        for job in jobs:
            job.state = "running"
            job.sent += 1
            self.counts["sent"] += 1
            self.counts["sent twice"] += job.sent > 1
            self.starts.append(self._events.now + self._costs.signal_wait - job.pushed_at)
            runs = self._random.expovariate(1 / self._size.seconds)
            self._events.after(runs + 2 * self._costs.signal_wait, self._ended, job, leader)

    # -- outcomes

    def _ended(self, job: Job, leader: Leader) -> None:
        """The outcome comes to the manager, or to another one if that is gone."""
        job.shard.room += 1
        self._settle(job, leader)
        if any(job.shard.queued.values()):
            of = self._owners.of
            for owner in dict.fromkeys(of[name] for name, jobs in job.shard.queued.items() if jobs and name in of):
                self._claim(job.shard, owner)

    def _settle(self, job: Job, leader: Leader) -> None:
        if leader.alive:
            self._group("settle", job.shard, leader).add(job)
        else:
            self._events.after(self._costs.unanswered, self._settle, job, self._any(job.shard))

    def _settled(self, _leader: Leader, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.state == "running":  # else an earlier try was stored
                job.state = "done"
                self.counts["done"] += 1

    # -- groups, and managers that die

    def _group(self, kind: str, shard: Shard, leader: Leader) -> Group[Job]:
        key = (kind, shard, leader)
        found = self._groups.get(key)
        if found is None:
            costs = self._costs
            wait = costs.claim_wait if kind == "claim" else costs.durable_wait
            begins = partial(self._push_begins, leader) if kind == "push" else None
            stored = {"push": self._pushed, "claim": self._claimed, "settle": self._settled}[kind]
            carried = partial(self._carry, kind, shard, partial(stored, leader))
            found = Group(self._events, wait, costs.job_wait, costs.group_most, begins, carried)
            self._groups[key] = found
        return found

    def _carry(self, kind: str, shard: Shard, stored: partial[None], jobs: Sequence[Job]) -> None:
        """A statement is stored: count it, and the messages that it took."""
        self.counts["statements"] += 1
        self.counts[kind] += len(jobs)
        if kind == "push":
            self.counts["messages"] += 2 * min(len(jobs), self._size.producers)
        elif kind == "settle":
            self.counts["messages"] += min(len(jobs), shard.receivers)
        stored(jobs)

    def died(self, leader: Leader) -> None:
        """What a manager had in memory is lost. Half of its statements under way are stored."""
        for key in [key for key in self._groups if key[2] is leader]:
            kind, shard, _ = key
            group = self._groups.pop(key)
            under_way, waiting = group.end()
            stored = bool(under_way) and self._random.random() < 0.5
            for job in under_way:
                self._cut(kind, shard, job, stored=stored)
            again = [*([] if kind == "claim" else under_way), *waiting]
            for job in again:
                self.counts["repeated"] += 1
                do = self._push_again if kind == "push" else self._settle_again
                self._events.after(self._costs.unanswered, do, job)

    def _cut(self, kind: str, shard: Shard, job: Job, *, stored: bool) -> None:
        """Decide about a job of a statement under way."""
        if kind == "settle":
            if stored:
                self._settled(self._any(shard), [job])
            return
        if kind == "claim" or job.state == "starting":
            shard.room += 1
        if kind == "claim" or stored:
            shard.orphans[job.name].append(job)
            job.state = "unsent" if stored and job.state != "new" else "queued"
            if job.name in self._owners.of:  # it has moved meanwhile
                self._events.after(self._costs.unanswered, self._give_back, shard, job.name)
        else:
            job.state = "new"

    def _push_again(self, job: Job) -> None:
        if job.state == "new":
            self._push(job)

    def _settle_again(self, job: Job) -> None:
        self._settle(job, self._any(job.shard))

    def _begun(self, leader: Leader, names: Iterable[str]) -> None:
        """A manager reads what waits in slices that it has taken, and asks the receivers what they hold."""
        for name in names:
            shard = self.shard_of[name]
            if shard.orphans[name]:
                self._events.after(2 * self._costs.signal_wait, self._give_back, shard, name)
            if shard.queued[name]:
                self._claim(shard, leader)

    def _give_back(self, shard: Shard, name: str) -> None:
        """What is stored as running and was never sent is queued again, uncounted."""
        jobs = shard.orphans.pop(name, [])
        self.counts["given back"] += sum(job.state == "unsent" for job in jobs)
        self.counts["statements"] += 1
        for job in jobs:
            job.state = "queued"
            self._queue(job)

    def check(self) -> None:
        """No job is lost or sent twice; raises AssertionError once all should be done."""
        counts = self.counts
        assert counts["pushed"] == counts["done"] == counts["sent"], counts
        assert counts["sent twice"] == 0, counts
