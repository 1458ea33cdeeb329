"""Jobs that pass queues in one attempt: as if they had been moved to each and reserved there."""

from __future__ import annotations

import pytest

from stanchion import JobState
from stanchion.core.names.partition_names import logical_name
from stanchion.core.values.framing import chunk_with
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import Redriven
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move, Outcome, Pass, Passage, Rollback, Tally
from stanchion.stores.rules.lifecycle.trail import payload_at, stops_of
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of
from stanchion_conformance.jobs.chunk_contents import chunk, counted, reserved, settle


class TestPassingQueues:
    """A job passes queues in memory and ends in the last: as if it had been moved to each and reserved there."""

    THROUGH = (Passage("second", True), Passage("third", False))

    @pytest.mark.parametrize("items", [None, 4])
    def test_as_if_it_had_been_moved_and_reserved(self, store: Store, items: int | None) -> None:
        """The same path, once in steps and once at once, leads to the same row and the same counts."""
        later = chunk_with(items, b"\xf0") if items else '"later"'
        ends = []
        for at_once in (False, True):
            prefix = "p" if at_once else "q"
            first = chunk(items) if items else new_job('"first"')
            row = reserved(store, first._replace(queue=prefix, headers='{"h":1}', priority=3))
            if at_once:
                through = Passage(f"{prefix}2", True), Passage(f"{prefix}3", False)
                end = Rollback(row.lease, 60.0, "E: no")
                assert settle(store, Pass(row.lease, through, end, later, '{"h":2}', True)) is JobState.SCHEDULED
            else:
                settle(store, Move(row.lease, f"{prefix}2", later, headers='{"h":1.5}', keep_entry=True))
                (row,) = claim(store, queue=f"{prefix}2")
                settle(store, Move(row.lease, f"{prefix}3", headers='{"h":2}', keep_entry=True))
                (row,) = claim(store, queue=f"{prefix}3")
                settle(store, Rollback(row.lease, 60.0, "E: no"))
            found = row_of(store, row.id)
            stops = [(stop.queue[1:], stop.attempts, stop.left) for stop in stops_of(found)]
            alike = found._replace(id="", queue=found.queue[1:], token=None, worker=None, past_waits=None)
            alike = alike._replace(run_at=0, enqueued_at=0, started_at=None, errors=None, trail=None)
            counts = [counted(store, f"{prefix}{n}") for n in ("", "2", "3")]
            ends.append((alike, stops, counts, payload_at(found, prefix)))
        assert ends[0][1:] == ends[1][1:]
        assert ends[0][0]._replace(lane=-1) == ends[1][0]

    def test_to_a_commit(self, store: Store) -> None:
        row = reserved(store, new_job('"first"'))
        end = Pass(row.lease, self.THROUGH, Commit(row.lease, '"result"'), '"later"')
        assert settle(store, end) is JobState.DONE
        done = row_of(store, row.id)
        assert (done.queue, done.payload, done.result, done.state) == ("third", '"later"', '"result"', "done")
        assert counted(store) == {"pushed": 1, "reserved": 1, "moved": 1}
        assert counted(store, "second") == {"reserved": 1, "moved": 1}
        assert counted(store, "third") == {"reserved": 1, "committed": 1}
        assert [stop.queue for stop in stops_of(done)] == [QUEUE, "second", "third"]

    def test_to_a_move(self, store: Store) -> None:
        row = reserved(store, chunk(4))
        assert settle(store, Pass(row.lease, self.THROUGH, Move(row.lease, "fourth", '"one"'))) is JobState.READY
        (row,) = claim(store, queue="fourth")
        assert (row.payload, row.items, row.attempts) == ('"one"', None, 1)
        assert counted(store, "third") == {"reserved": 4, "moved": 4}

    def test_to_a_division(self, store: Store) -> None:
        row = reserved(store, chunk(4))
        part = chunk(4, queue="fourth")
        tallies = (Tally("third", "moved", 4),)
        end = Pass(row.lease, self.THROUGH, Commit(row.lease, jobs=(part,), tallies=tallies), chunk_with(4, b"p"))
        assert settle(store, end) is JobState.DONE
        done = row_of(store, row.id)
        assert (done.queue, done.items, done.payload) == ("third", 0, chunk_with(4, b"p"))
        assert counted(store, "third") == {"reserved": 4, "moved": 4}
        assert [row.payload for row in claim(store, queue="fourth")] == [part.payload]

    def test_to_a_burial_by_the_settings_of_the_last_queue(self, store: Store) -> None:
        store.configure(QUEUE, {"dead_letter": "wrong"})
        store.configure("third", {"dead_letter": "dead"})
        row = reserved(store, new_job("1"))
        assert settle(store, Pass(row.lease, self.THROUGH, Bury(row.lease, "E: no"))) is JobState.DEAD
        dead = row_of(store, row.id)
        assert (dead.queue, dead.dead_from, dead.dead_attempts) == ("dead", "third", 1)
        assert counted(store, "third") == {"reserved": 1, "buried": 1}
        assert store.retry([row.id]) == [Redriven.READY]
        assert [row.id for row in claim(store, queue="third")] == [row.id]

    def test_to_an_abandonment(self, store: Store) -> None:
        row = reserved(store, new_job("1"))
        assert settle(store, Pass(row.lease, self.THROUGH, Abandon(row.lease, "no"))) is JobState.CANCELLED
        assert (row_of(store, row.id).queue, counted(store, "third")) == ("third", {"reserved": 1, "cancelled": 1})

    def test_history_by_the_settings_of_the_last_queue(self, store: Store) -> None:
        store.configure("third", {"history_ttl": 0.0})
        row = reserved(store, new_job("1"))
        settle(store, Pass(row.lease, self.THROUGH, Commit(row.lease)))
        assert store.fetch([row.id]) == {}

    def test_attempts_begin_anew(self, store: Store) -> None:
        store.push([new_job("1", max_attempts=2)])
        (row,) = claim(store)
        settle(store, Rollback(row.lease, 0.0, "E: first"))
        (row,) = claim(store)
        settle(store, Pass(row.lease, self.THROUGH, Rollback(row.lease, 0.0, "E: third")))
        (row,) = claim(store, queue="third")
        assert (row.attempts, row.failures) == (2, 1)
        assert [stop.attempts for stop in stops_of(row)] == [2, 1, None]

    def test_not_under_a_lost_lease(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job("1")])
        (row,) = claim(store, lease=10.0)
        clock.advance(11)
        store.recover()
        assert settle(store, Pass(row.lease, self.THROUGH, Commit(row.lease))) is None
        assert (logical_name(row_of(store, row.id).queue), counted(store, "third")) == (QUEUE, {})

    def test_a_repeat_is_known(self, store: Store) -> None:
        row = reserved(store, new_job("1"))
        end = Pass(row.lease, self.THROUGH, Commit(row.lease, '"r"'))
        assert settle(store, end) is JobState.DONE
        assert store.settle([end], repeat=True) == [JobState.DONE]
        assert counted(store, "third") == {"reserved": 1, "committed": 1}

    def test_beside_other_outcomes(self, store: Store) -> None:
        store.push([new_job(str(n)) for n in range(4)])
        one, two, three, four = claim(store, 4)
        ends: list[Outcome] = [
            Commit(one.lease),
            Pass(two.lease, self.THROUGH, Commit(two.lease)),
            Move(three.lease, "second"),
            Pass(four.lease, self.THROUGH[:1], Rollback(four.lease, 0.0, "E")),
        ]
        assert store.settle(ends) == [JobState.DONE, JobState.DONE, JobState.READY, JobState.READY]
        assert {row.id for row in claim(store, 5, queue="second")} == {three.id, four.id}

    def test_a_job_asked_to_stop_is_not_divided(self, store: Store) -> None:
        row = reserved(store, chunk(4))
        store.cancel([row.id])
        end = Pass(row.lease, self.THROUGH, Commit(row.lease, jobs=(chunk(4, queue="fourth"),)))
        assert settle(store, end) is JobState.CANCELLED
        assert claim(store, queue="fourth") == []
