"""The payloads with which a job came to queues that it has left, where these keep them."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Queue, Stanchion
from stanchion.core.values.framing import Content, chunk_with
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Continue, Move, Pass, Passage, Rollback
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.rules.lifecycle.trail import KEPT_MOST, payload_at
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of
from stanchion_conformance.jobs.chunk_contents import chunk, settle
from stanchion_conformance.jobs.trails import NAMES

CHUNK = chunk_with(4, b"\xf0\x00'\"\\\n\x1c\x1d\x1e\x1f")


def moved(store: Store, queue: str, to: str, payload: Content | None = None, **fields: Any) -> JobRow:
    """Claim a job of a queue and move it on; return it as it is then."""
    (row,) = claim(store, queue=queue)
    settle(store, Move(row.lease, to, payload, **fields))
    return row_of(store, row.id)


def kept(row: JobRow) -> list[Content | None]:
    """Return the payloads with which a job came to the queues of these cases."""
    return [payload_at(row, queue) for queue in (QUEUE, "b", "c", "d")]


class TestKeptPayloads:
    @pytest.mark.parametrize("payloads", [('"0"', '"1"', '"2"', '"3"'), ('"0"', CHUNK, '"2"', chunk_with(2, b"~"))])
    def test_of_the_queues_that_keep_them(self, store: Store, payloads: tuple[Content, ...]) -> None:
        store.push([new_job(payloads[0])])  # type: ignore[arg-type] # a text
        moved(store, QUEUE, "b", payloads[1])
        moved(store, "b", "c", payloads[2], keep_arrival=True)
        row = moved(store, "c", "d", payloads[3])
        assert kept(row) == [None, payloads[1], None, payloads[3]]
        (row,) = claim(store, queue="d")
        settle(store, Commit(row.lease, '"result"'))
        assert kept(row_of(store, row.id)) == [None, payloads[1], None, payloads[3]]

    def test_of_each_queue_that_a_job_passes(self, store: Store) -> None:
        store.push([new_job('"0"')])
        for n, (here, there) in enumerate(((QUEUE, "b"), ("b", "c"), ("c", "d")), 1):
            row = moved(store, here, there, f'"{n}"', keep_arrival=True)
        assert kept(row) == ['"0"', '"1"', '"2"', '"3"']

    def test_beside_that_of_the_entry(self, store: Store) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", '"1"', keep_entry=True)
        row = moved(store, "b", "c", '"2"', keep_entry=True, keep_arrival=True)
        row = moved(store, "c", "d", '"3"', keep_entry=True)
        assert kept(row) == ['"0"', '"1"', None, '"3"']
        assert row.entry_payload == '"0"'

    def test_of_a_job_that_leaves_unchanged(self, store: Store) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", '"1"')
        moved(store, "b", "c", keep_arrival=True)
        assert kept(moved(store, "c", "d", '"2"')) == [None, '"1"', None, '"2"']

    def test_is_what_came_and_no_checkpoint(self, store: Store) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", '"1"')
        (row,) = claim(store, queue="b")
        settle(store, Rollback(row.lease, 0.0, payload='"checkpoint"'))
        moved(store, "b", "c", '"2"', keep_arrival=True)
        assert kept(moved(store, "c", "d", '"3"'))[1] == '"1"'

    def test_of_the_last_visit_and_at_the_entry_of_the_first(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job('"0"')])
        for n in range(1, 4):
            clock.advance(1)
            moved(store, QUEUE, "b", f'"b{n}"', keep_arrival=True)
            clock.advance(1)
            row = moved(store, "b", QUEUE if n < 3 else "c", f'"{n}"', keep_arrival=True)
        assert kept(moved(store, "c", "d", '"last"'))[:2] == ['"0"', '"b3"']
        assert row.kept_payloads is not None
        assert '"b2' not in row.kept_payloads

    def test_of_a_visit_that_did_not_keep_it_there_is_none(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", '"1"')
        moved(store, "b", "c", '"2"', keep_arrival=True)
        clock.advance(1)
        moved(store, "c", "b", '"3"')
        moved(store, "b", "c", '"4"')
        assert kept(moved(store, "c", "d", '"5"'))[1] is None

    def test_through_queues_in_memory(self, store: Store) -> None:
        """As by moves, and the payload of a queue in the middle comes with the outcome."""
        store.push([new_job('"0"', queue="a"), chunk(4, queue="chunks")])
        for queue, first, second in (("a", '"0"', '"1"'), ("chunks", chunk(4).payload, CHUNK)):
            (row,) = claim(store, queue=queue)
            passages = Passage("b", True, first), Passage("c", True, second), Passage("d", True)
            settle(store, Pass(row.lease, passages, Commit(row.lease, '"result"'), '"3"'))
            done = row_of(store, row.id)
            assert [payload_at(done, one) for one in (queue, "b", "c", "d")] == [first, second, None, '"3"']

    def test_from_the_end_of_what_passed_in_memory(self, store: Store) -> None:
        store.push([new_job('"0"')])
        (row,) = claim(store)
        end = Move(row.lease, "d", '"3"', keep_arrival=True)
        settle(store, Pass(row.lease, (Passage("b", True), Passage("c", True)), end, '"2"'))
        assert kept(row_of(store, row.id)) == [None, None, '"2"', '"3"']

    def test_of_a_job_that_goes_on_as_another_call(self, store: Store) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", '"1"', keep_arrival=True)
        (row,) = claim(store, queue="b")
        going_on = new_job('"2"', queue="c", priority=5)._replace(id=row.id)
        settle(store, Continue(row.lease, going_on, keep_arrival=True))
        assert kept(moved(store, "c", "d", '"3"')) == ['"0"', '"1"', None, '"3"']

    @pytest.mark.parametrize("end", ["fails", "is buried", "is cancelled", "loses its lease", "is a letter"])
    def test_whatever_becomes_of_it_later(self, store: Store, clock: StoreClock, end: str) -> None:
        if end == "is a letter":
            store.configure("c", {"dead_letter": "letters"})
        store.push([new_job('"0"', max_attempts=3, limits=limits_text(Limits(semaphores=("s",))))])
        store.set_semaphore("s", 1, declared=False)
        moved(store, QUEUE, "b", '"1"', keep_arrival=True)
        moved(store, "b", "c", '"2"', keep_arrival=True)
        (row,) = claim(store, queue="c", lease=10.0)
        match end:
            case "fails":
                settle(store, Rollback(row.lease, 0.0, "E: no"))
            case "is cancelled":
                settle(store, Abandon(row.lease, "no"))
            case "loses its lease":
                clock.advance(11)
                store.recover()
            case _:
                settle(store, Bury(row.lease, "E: no"))
        assert kept(row_of(store, row.id))[:3] == ['"0"', '"1"', '"2"']
        if end in ("is buried", "is a letter"):
            assert [one.name for one in store.retry([row.id])] == ["READY"]
            assert kept(row_of(store, row.id))[:3] == ['"0"', '"1"', '"2"']

    def test_of_some_of_the_jobs_that_move_together(self, store: Store) -> None:
        jobs = [new_job(f'"{n}"') for n in range(8)]
        store.push(jobs)
        rows = claim(store, 8)
        moves = [Move(row.lease, "b", f'"b{row.id}"', keep_arrival=n % 3 == 0) for n, row in enumerate(rows)]
        assert None not in store.settle(moves)
        for n, row in enumerate(rows):
            there = row_of(store, row.id)
            assert (payload_at(there, QUEUE), there.payload) == (None if n % 3 else row.payload, f'"b{row.id}"')

    @pytest.mark.parametrize("queue", NAMES)
    def test_by_any_name_and_of_any_content(self, store: Store, queue: str) -> None:
        odd = '{"a\\"b":["\\u0000","ü\U0001f986","\\\\",":[0,\\"",1.50]}'
        store.push([new_job(odd, queue=queue)])
        moved(store, queue, "b", '"1"', keep_arrival=True)
        moved(store, "b", "c", '"2"', keep_arrival=True)
        row = moved(store, "c", "d", '"3"')
        assert payload_at(row, queue) == (odd if queue != "d" else '"3"')
        assert kept(row)[1] == '"1"'

    def test_of_a_text_that_another_program_has_stored(self, store: Store) -> None:
        now = store.now()
        odd = ("", "x", "[]", '{"b":1}', '{"b":[1,2]}')
        rows = [
            created(new_job('"0"', queue=f"odd{n}"), now)._replace(kept_payloads=text) for n, text in enumerate(odd)
        ]
        try:
            assert all(store.adopt(rows))
        except InvalidInput:
            return  # a manager refuses such rows
        for n in range(len(odd)):
            row = moved(store, f"odd{n}", "b", '"1"', keep_arrival=True)
            assert payload_at(row, f"odd{n}") == '"0"'
            moved(store, "b", "c", '"2"', keep_arrival=True)
            row = moved(store, "c", "d", '"3"')
            assert kept(row)[1] == '"1"'

    def test_of_a_size_that_is_bounded(self, store: Store) -> None:
        large = f'"{"x" * (KEPT_MOST // 2)}"'
        store.push([new_job(large)])
        moved(store, QUEUE, "b", large[:-2] + 'b"', keep_arrival=True)
        moved(store, "b", "c", '"2"', keep_arrival=True)
        row = moved(store, "c", "d", '"3"', keep_arrival=True)
        assert kept(row) == [None, large[:-2] + 'b"', '"2"', '"3"']

    def test_of_a_copy(self, app: Stanchion, store: Store, other_store: Store) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", CHUNK)
        row = moved(store, "b", "c", '"2"', keep_arrival=True)
        (done,) = claim(store, queue="c")
        settle(store, Commit(done.lease))
        finished = row_of(store, row.id)
        assert app.queue("c").purge_history(older_than=0) == 1
        assert other_store.adopt([finished]) == [True]
        assert row_of(other_store, row.id).kept_payloads == finished.kept_payloads
        assert kept(row_of(other_store, row.id))[1] == CHUNK

    def test_of_a_job_moved_by_hand(self, app: Stanchion, q: Queue, store: Store) -> None:
        item = q.push("came")
        q.reserve()[0].move("b", payload="went", keep_arrival=True)
        app.queue("b").reserve()[0].commit(payload="ended")
        assert payload_at(row_of(store, item.id), QUEUE) == '"came"'

    def test_goes_with_the_history_of_its_job(self, app: Stanchion, store: Store) -> None:
        store.push([new_job('"0"')])
        moved(store, QUEUE, "b", '"1"', keep_arrival=True)
        (row,) = claim(store, queue="b")
        settle(store, Commit(row.lease))
        assert app.queue("b").purge_history(older_than=0) == 1
        assert store.fetch([row.id]) == {}
