"""A job that passes queues in one attempt and ends there looks as if it had been moved, claimed and committed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from stanchion import JobState
from stanchion.core.ids import new_id
from stanchion.core.values.framing import Content, chunk_with
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED
from stanchion.stores.records.jobs import JobRow, Lease, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Pass, Passage, Rollback, Tally
from stanchion.stores.rules.lifecycle.trail import STOPS_MAX, payload_at, split_trail, stops_of
from stanchion_conformance.harness import claim, new_job, row_of
from stanchion_conformance.jobs.chunk_contents import chunk, counted, reserved, settle

STRANGE_NAME = 'a "name",["]],[\u00e9'
CHUNK = chunk_with(4, b"\xf1")


class Path(NamedTuple):
    """A path through queues.

    `before`: one move per payload, each stored, before the attempt under test; None: the payload stays. `passed`: the
    moves of that attempt, which ends the job with `result`. `fails`: before it, an attempt fails and changes the
    payload.
    """

    passed: tuple[Content | None, ...] = (None, '"2"', None)
    before: tuple[Content | None, ...] = ()
    first: Content = '"1"'
    result: Content | None = '"r"'
    fails: bool = False
    keep_entry: bool = True
    headers: str | None = '{"h":1}'
    pushed: dict[str, Any] = {}  # noqa: RUF012 - of a record
    name: str = "q"


PATHS = {
    "plain": Path(),
    "to the next one": Path(('"2"',)),
    "nothing changed": Path((None, None)),
    "each changed it": Path(('"2"', '"3"', '"4"')),
    "no entry kept": Path(keep_entry=False),
    "no result": Path(result=None),
    "after a move": Path(before=(None,)),
    "after a change": Path(before=('"0"', None)),
    "after a failure": Path(fails=True),
    "after a failure at a later station": Path(before=('"0"',), fails=True),
    "a part": Path(pushed={"trail": ""}),
    "a part after a move": Path(before=(None,), pushed={"trail": ""}),
    "a part after a change": Path(before=('"0"',), pushed={"trail": ""}),
    "with a key and a priority": Path(pushed={"key": "k", "priority": 7, "headers": '{"h":0}'}),
    "headers stay": Path(headers=None, pushed={"headers": '{"h":0}'}),
    "with a lane": Path(pushed={"lane": 3}),
    "strange names": Path(before=(None,), name=STRANGE_NAME),
    "a long path": Path(before=(None,) * (STOPS_MAX - 5)),
    "as long as a trail": Path(before=(None,) * (STOPS_MAX - 4)),
    "longer than a trail": Path(before=(None,) * (STOPS_MAX - 3)),
    "a chunk": Path((None, None), first=CHUNK),
    "a chunk that changes": Path((None, chunk_with(4, b"\xf2")), first=CHUNK, result=chunk_with(4, b"\xf3")),
    "a chunk after a change": Path(before=(chunk_with(4, b"\xf4"),), passed=(chunk_with(4, b"\xf2"),), first=CHUNK),
    "a chunk that becomes an item": Path(('"one"', None), first=CHUNK),
    "an item that becomes a chunk": Path((CHUNK, None)),
}


class Ended(NamedTuple):
    """The facts to compare: the row without times and holders, its trail, the counts, the payload of its entry."""

    row: JobRow
    stops: list[tuple[str, int | None, int | None]]
    counts: list[dict[str, int]]
    entry: Content | None


class TestPassingToAnEnd:
    """A job that passes queues in memory and ends there looks as if each step had been stored."""

    @pytest.mark.parametrize("name", PATHS)
    def test_is_as_if_it_had_been_stored_at_each(self, store: Store, name: str) -> None:
        path = PATHS[name]
        assert _ended(store, path, at_once=True) == _ended(store, path, at_once=False)

    def test_many_at_once(self, store: Store) -> None:
        """One call ends jobs of several claims and queues, mixed with other outcomes."""
        for queue in ("a", "b"):
            store.push([new_job(f'"{n}"', queue=queue) for n in range(20)])
        ends: list[Outcome] = []
        expected: dict[str, tuple[str, Content, Content | None, list[int]]] = {}
        for queue, some in ((queue, some) for queue in "ab" for some in range(2)):
            for n, row in enumerate(claim(store, 10, queue=queue)):
                if n >= 8:
                    ends.append(Commit(row.lease))
                    expected[row.id] = queue, row.payload, None, []
                    continue
                changed = n % 2 == 0
                way = Passage(f"{queue}2", changed), Passage(f"{queue}3", n == 1)
                payload = f'"{n} {some}"' if n == 1 or changed else None
                result = f'"r{n}"' if n % 3 else None
                ends.append(Pass(row.lease, way, Commit(row.lease, result), payload, None, True))
                expected[row.id] = way[-1].queue, payload or row.payload, result, [int(one.changed) for one in way]
        assert store.settle(ends) == [JobState.DONE] * 40
        found = store.fetch(list(expected))
        for one in found.values():
            left = [stop.left for stop in stops_of(one) if stop.left is not None]
            assert (one.queue, one.payload, one.result, left) == expected[one.id]
        assert counted(store, "a") == {"pushed": 20, "reserved": 20, "moved": 16, "committed": 4}
        assert counted(store, "a2") == {"reserved": 16, "moved": 16}
        assert counted(store, "b3") == {"reserved": 16, "committed": 16}

    @pytest.mark.parametrize("then", ["commit", "division"])
    def test_only_under_its_lease(self, store: Store, then: str) -> None:
        """A wrong token, a wrong queue or a job that is not reserved changes nothing; the other jobs still end."""
        rows = {row.id: row for row in [reserved(store, new_job() if then == "commit" else chunk(4)) for _ in range(4)]}
        one, two, three, four = rows.values()
        store.settle([Rollback(four.lease, 60.0, "E")])
        leases = [one.lease._replace(token=new_id()), two.lease._replace(queue="other"), three.lease, four.lease]
        part = chunk(4, queue="fourth")
        ends = [_through(lease, then, part._replace(id=new_id())) for lease in leases]
        assert [settle(store, ends[n]) for n in (0, 1, 3)] == [None] * 3
        assert store.settle(ends) == [None, None, JobState.DONE, None]
        assert [row_of(store, row.id).state for row in rows.values()] == ["running", "running", "done", "queued"]
        assert counted(store, "third") == (
            {"reserved": 1, "committed": 1} if then == "commit" else {"reserved": 4, "moved": 4}
        )

    def test_divided_at_its_end(self, store: Store) -> None:
        """The chunk looks as if it had moved first."""
        ends = []
        for prefix in "pq":
            row = reserved(store, chunk(4, queue=prefix))
            later, end = chunk_with(4, b"\xf2"), f"{prefix}2"
            parts = tuple(chunk(2, queue=f"{prefix}{n}") for n in (3, 4))
            tallies = tuple(Tally(end, "moved", 2) for _ in range(2))
            if prefix == "p":
                divide = Commit(row.lease, jobs=parts, tallies=tallies)
                assert settle(store, Pass(row.lease, (Passage(end, True),), divide, later, None, True)) is JobState.DONE
            else:
                settle(store, Move(row.lease, end, later, keep_entry=True))
                (row,) = claim(store, queue=end)
                settle(store, Commit(row.lease, jobs=parts, tallies=tallies))
            counts = [counted(store, f"{prefix}{n}") for n in ("", 2, 3, 4)]
            ends.append((_alike(row_of(store, row.id)), counts))
        assert ends[0] == ends[1]

    def test_of_an_ordered_line(self, store: Store) -> None:
        """The next job of its order key can start."""
        store.push([new_job(str(n), order_key="k") for n in range(2)])
        (row,) = claim(store, 2)
        assert settle(store, _through(row.lease, "commit")) is JobState.DONE
        assert [row.payload for row in claim(store, 2)] == ["1"]

    def test_after_it_was_asked_to_stop(self, store: Store) -> None:
        row = reserved(store, new_job("1"))
        store.cancel([row.id])
        assert settle(store, _through(row.lease, "commit")) is JobState.DONE

    def test_of_a_job_that_was_popped(self, store: Store) -> None:
        row = reserved(store, new_job("1"), delivery=POPPED)
        assert settle(store, _through(row.lease, "commit")) is JobState.DONE
        assert counted(store, "third") == {"reserved": 1, "popped": 1}

    def test_twice_in_one_call(self, store: Store) -> None:
        row = reserved(store, new_job("1"))
        assert store.settle([_through(row.lease, "commit"), Commit(row.lease)]) == [JobState.DONE, None]
        assert counted(store, "third") == {"reserved": 1, "committed": 1}


def _through(lease: Lease, then: str, *jobs: NewJob) -> Pass:
    end = Commit(lease) if then == "commit" else Commit(lease, jobs=jobs, tallies=(Tally("third", "moved", 4),))
    return Pass(lease, (Passage("second"), Passage("third")), end)


def _ended(store: Store, path: Path, *, at_once: bool) -> Ended:
    """Take a job along a path and return the facts."""
    prefix = f"{path.name}{int(at_once)}"
    fields = dict(path.pushed)
    if "trail" in fields:
        fields["trail"] = split_trail(JobRow(new_id(), prefix, 0, "queued", 0, 0, 1, 1, "0", attempts=1))
    row = reserved(store, NewJob(id=new_id(), queue=f"{prefix}0", payload=path.first, **fields))
    queues = [f"{prefix}{n}" for n in range(1 + len(path.before) + len(path.passed))]
    for queue, payload in zip(queues[1:], path.before, strict=False):
        settle(store, Move(row.lease, queue, payload, keep_entry=path.keep_entry))
        (row,) = claim(store, queue=queue)
    came_with = row.payload
    if path.fails:
        settle(store, Rollback(row.lease, 0.0, "E: once", payload='"again"'))
        (row,) = claim(store, queue=row.queue)
    rest = queues[1 + len(path.before) :]
    if at_once:
        last = next((payload for payload in reversed(path.passed) if payload is not None), None)
        passages = tuple(
            # The failed attempt changed the payload, too.
            Passage(queue, payload is not None or (n == 0 and row.payload != came_with))
            for n, (queue, payload) in enumerate(zip(rest, path.passed, strict=True))
        )
        end = Pass(row.lease, passages, Commit(row.lease, path.result), last, path.headers, path.keep_entry)
        assert settle(store, end) is JobState.DONE
    else:
        for queue, payload in zip(rest, path.passed, strict=True):
            settle(store, Move(row.lease, queue, payload, headers=path.headers, keep_entry=path.keep_entry))
            (row,) = claim(store, queue=queue)
        assert settle(store, Commit(row.lease, path.result)) is JobState.DONE
    found = row_of(store, row.id)
    stops = [(stop.queue.replace(prefix, ""), stop.attempts, stop.left) for stop in stops_of(found)]
    return Ended(
        _alike(found, prefix), stops, [counted(store, queue) for queue in queues], payload_at(found, queues[0])
    )


def _alike(row: JobRow, prefix: str = "") -> JobRow:
    """Return a row without the fields that always differ between two jobs."""
    queue = row.queue.replace(prefix, "") if prefix else row.queue[1:]
    there = row._replace(queue=queue, trail=None, past_waits=None, run_at=0, enqueued_at=0)
    return there._replace(id="", token=None, worker=None, started_at=None, finished_at=None)
