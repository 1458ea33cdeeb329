"""Many moves settled at once: each leaves what the rule of a single one says, and changes nothing else."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Bury, Commit, Extend, Move, Outcome, Rollback
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lifecycle.outcomes import settled
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of

NAMES = ("clean", "ünï🦆", 'say "so"', ',1],["', "back\\slash", "a],[b")
LONG = 200


def trail_of(stops: int, chooses: random.Random, *, closed: bool) -> str:
    """Return the trail of a job with so many stops; `closed`: it was just split from another."""
    left = [[chooses.choice(NAMES), 1_000_000 + n, chooses.randrange(3), chooses.randrange(3)] for n in range(stops)]
    last = [*left[-1][:3], 2] if closed else [QUEUE, 2_000_000]
    return json.dumps([*left[:-1], last], ensure_ascii=False, separators=(",", ":"))


def shapes(chooses: random.Random) -> list[JobRow]:
    """Return queued jobs with all kinds of trails, payloads and headers, as another store may have had them."""
    trails: list[str | None] = [None]
    for stops in (2, 3, 5, 97, 98, 99, 100):
        trails += [trail_of(stops, chooses, closed=closed) for closed in (False, True)]
    headers = (None, '{"a":1}')
    deaths = (None, 2)
    kinds = [
        (trail, arrival, entry, header, death)
        for trail in trails
        for arrival in (None, "0", '"before"')
        for entry in (None, '"entry"')
        for header in headers
        for death in deaths
    ]
    template = JobRow("", QUEUE, -1, "queued", 0, 0, 1, 1, "0", tenant="acme", key=None, errors='[{"error":"once"}]')
    return [
        template._replace(id=one, trail=trail, arrival_payload=arrival, entry_payload=entry, headers=header)._replace(
            dead_from=None if death is None else "elsewhere", dead_at=death, dead_attempts=death
        )
        for one, (trail, arrival, entry, header, death) in zip(new_ids(len(kinds)), kinds, strict=True)
    ]


def any_move(row: JobRow, chooses: random.Random) -> Move:
    """Return a move of a reserved job."""
    return Move(
        row.lease,
        chooses.choice(NAMES),
        payload=chooses.choice((None, "0", '"before"', '"after"')),
        delay=chooses.choice((0.0, 0.0, 60.5)),
        headers=chooses.choice((None, '{"b":2}')),
        keep_entry=chooses.random() < 0.5,
    )


def without_times(row: JobRow) -> dict[str, Any]:
    """Return a job without its due time, and without a token, which is of no meaning once it is queued."""
    return {**row._asdict(), "run_at": None, "token": None}


def mixed(reserved: list[JobRow], moves: list[Move]) -> list[list[int]]:
    """Return the places of many moves to be settled together, of all kinds."""
    return [list(range(len(moves)))[first : first + LONG] for first in range(0, len(reserved), LONG)]


def alike(reserved: list[JobRow], moves: list[Move]) -> list[list[int]]:
    """Return the places of moves to be settled together, as a station does: few differ in more than the payload."""
    kinds = defaultdict(list)
    for place, (row, move) in enumerate(zip(reserved, moves, strict=True)):
        long_way = (row.trail or "").count("[") > 97
        kinds[move.queue, move.delay, move.headers, move.keep_entry, long_way, row.headers].append(place)
    return list(kinds.values())


class TestMovesAtOnce:
    @pytest.mark.parametrize("portions", [mixed, alike])
    def test_each_leaves_what_its_rule_says(
        self, store: Store, portions: Callable[[list[JobRow], list[Move]], list[list[int]]]
    ) -> None:
        chooses = random.Random(7)
        rows = shapes(chooses)
        assert all(store.adopt(rows))
        reserved = claim(store, len(rows))
        moves = [any_move(row, chooses) for row in reserved]
        for places in portions(reserved, moves):
            some = [moves[place] for place in places]
            assert store.settle(some) == [JobState.SCHEDULED if one.delay else JobState.READY for one in some]
        after = store.fetch([row.id for row in reserved])
        for row, move in zip(reserved, moves, strict=True):
            found = after[row.id]
            moved_at = json.loads(found.trail or "")[-1][1]
            wanted = settled(row, move, QueueSettings(QUEUE), moved_at).row
            assert without_times(found) == without_times(wanted)
            assert abs(found.run_at - wanted.run_at) < SECOND

    def test_beside_all_other_outcomes(self, store: Store) -> None:
        store.push([new_job(str(n), limits='{"hold":["s"]}' if n == 7 else None) for n in range(12)])
        rows = sorted(claim(store, 12), key=lambda row: int(row.payload))
        (part,) = new_ids(1)
        outcomes: list[Outcome] = [
            Move(rows[0].lease, "next"),
            Commit(rows[1].lease, result="1"),
            Move(rows[2].lease, "later", delay=60),
            Rollback(rows[3].lease, 0.0, "boom"),
            Bury(rows[4].lease, "no"),
            Move(rows[5].lease, "next", lane=3),
            Commit(rows[6].lease, jobs=(new_job(id=part, queue="next"),)),
            Move(rows[7].lease, "next"),
            Move(rows[8].lease, "next", order_key="k"),
            Move(rows[9].lease._replace(token="another"), "next"),
            Extend(rows[10].lease, 60.0),
            Move(rows[11].lease, "next", '"11"'),
        ]
        expected: list[JobState | None] = [
            *(JobState.READY, JobState.DONE, JobState.SCHEDULED, JobState.READY, JobState.DEAD, JobState.READY),
            *(JobState.DONE, JobState.READY, JobState.READY, None, JobState.RUNNING, JobState.READY),
        ]
        assert store.settle(outcomes) == expected
        there = {row.id: row for row in claim(store, 20, queue="next")}
        assert set(there) == {rows[n].id for n in (0, 5, 7, 8, 11)} | {part}
        assert there[rows[11].id].payload == '"11"'
        assert (row_of(store, rows[9].id).state, row_of(store, rows[10].id).state) == ("running", "running")
        counted = store.stats([QUEUE], ["totals"])[QUEUE].totals
        assert (counted.moved, counted.committed, counted.rolled_back, counted.buried) == (6 + 1, 1, 1, 1)

    def test_lost_ones_among_many(self, store: Store) -> None:
        store.push([new_job(str(n)) for n in range(6)])
        rows = sorted(claim(store, 6), key=lambda row: int(row.payload))
        store.settle([Commit(rows[1].lease)])
        store.settle([Rollback(rows[2].lease, 0.0)])
        leases = [row.lease for row in rows]
        leases[4] = leases[4]._replace(queue="another")
        found = store.settle([Move(lease, "next") for lease in leases])
        assert found == [JobState.READY, None, None, JobState.READY, None, JobState.READY]
        assert sorted(row.payload for row in claim(store, 9, queue="next")) == ["0", "3", "5"]
        assert store.stats([QUEUE], ["totals"])[QUEUE].totals.moved == 3

    @pytest.mark.parametrize("lost", [0, 2, 5])
    def test_one_that_is_lost_among_others_of_its_claim(self, store: Store, lost: int) -> None:
        store.push([new_job(str(n)) for n in range(6)])
        rows = sorted(claim(store, 6), key=lambda row: int(row.payload))
        store.settle([Commit(rows[lost].lease)])
        found = store.settle([Move(row.lease, "next") for row in rows])
        assert found == [None if n == lost else JobState.READY for n in range(6)]
        assert len(claim(store, 9, queue="next")) == 5
        totals = store.stats([QUEUE], ["totals"])[QUEUE].totals
        assert (totals.moved, totals.committed) == (5, 1)

    def test_under_a_lease_that_has_run_out(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job(str(n)) for n in range(3)])
        rows = claim(store, 3, lease=30.0)
        clock.advance(31)
        assert store.settle([Move(row.lease, "next") for row in rows]) == [None] * 3
        assert claim(store, 9, queue="next") == []

    def test_of_one_job_the_first_counts(self, store: Store) -> None:
        store.push([new_job() for _ in range(2)])
        one, other = claim(store, 2)
        outcomes: list[Outcome] = [
            *(Move(one.lease, "a"), Move(one.lease, "b"), Commit(one.lease)),
            *(Commit(other.lease), Move(other.lease, "b")),
        ]
        assert store.settle(outcomes) == [JobState.READY, None, None, JobState.DONE, None]
        assert (row_of(store, one.id).queue, row_of(store, other.id).state) == ("a", "done")
