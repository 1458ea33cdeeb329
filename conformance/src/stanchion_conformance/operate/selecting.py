"""Queries: conditions, orders, pages and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.stores.records.query import Condition, Order, Page, Query
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import order_slot, semaphore_slot
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of

OTHER = "other"
LIMITED = limits_text(Limits(("slot",)))


def where(**values: Any) -> tuple[Condition, ...]:
    """Return the conditions that fields have these values."""
    return tuple(Condition(field, "=", value) for field, value in values.items())


def all_of(store: Store, query: Query) -> list[Any]:
    """Return the rows of all pages of a query."""
    page = store.select(query)
    rows = list(page.rows)
    while page.next is not None:
        page = store.select(Query(**{**{name: getattr(query, name) for name in query.__slots__}, "after": page.next}))
        assert len(page.rows) <= query.limit
        rows += page.rows
    return rows


def ids(store: Store, limit: int = 1000, **query: Any) -> list[str]:
    """Return the ids of all jobs of a query, with pages of so many, in its order."""
    return [row.id for row in all_of(store, Query(limit=limit, **query))]


def finish(store: Store, *jobs: str, queue: str = QUEUE) -> None:
    """Commit these jobs, in this order, each at a moment of its own."""
    rows = {row.id: row for row in claim(store, 100, queue=queue)}
    for job in jobs:
        store.settle([Commit(rows.pop(job).lease)])
    store.settle([Rollback(row.lease, 0.0, refund=True) for row in rows.values()])


class TestSelect:
    def test_live_jobs_history_and_all(self, store: Store) -> None:
        live, done, dead = (new_job(str(n)) for n in range(3))
        store.push([done, dead])
        one, two = claim(store, 2)
        store.settle([Commit(one.lease, '"result"'), Bury(two.lease, "broken")])
        store.push([live])
        assert all_of(store, Query(of="live")) == [row_of(store, live.id)]
        assert all_of(store, Query(of="history")) == [row_of(store, dead.id), row_of(store, done.id)]
        assert sorted(ids(store)) == sorted([live.id, done.id, dead.id])
        assert {row.id: row for row in all_of(store, Query())} == store.fetch([live.id, done.id, dead.id])

    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        for of in ("live", "history", "all"):
            assert store.select(Query(of=of)) == Page([])

    def test_all_conditions_are_met(self, store: Store) -> None:
        jobs = [new_job(queue=queue, tenant=tenant) for queue in (QUEUE, OTHER) for tenant in ("a", "b")]
        store.push(jobs)
        assert ids(store, where=where(queue=OTHER, tenant="b")) == [jobs[3].id]
        assert ids(store, where=(*where(tenant="a"), Condition("queue", "in", (QUEUE, OTHER))), order="id") == [
            jobs[0].id,
            jobs[2].id,
        ]
        assert ids(store, where=where(queue="nowhere")) == []
        assert ids(store, where=where(id=jobs[1].id)) == [jobs[1].id]
        assert ids(store, where=(Condition("id", "in", (jobs[1].id, jobs[2].id)),), order="id") == [
            jobs[1].id,
            jobs[2].id,
        ]

    def test_by_state_as_the_outside_sees_it(self, store: Store) -> None:
        store.configure(QUEUE, {"dead_letter": "letters"})
        ready, later, dead = new_job("1"), new_job("2", delay=1000), new_job("3", priority=5)
        store.push([ready, later, dead])
        [row] = claim(store)
        store.settle([Bury(row.lease, "broken")])

        def found(*states: str, of: str = "all") -> list[str]:
            return ids(store, of=of, where=(Condition("state", "in", states),), order="id")

        assert found("ready") == [ready.id]
        assert found("scheduled") == [later.id]
        assert found("dead") == [dead.id]
        assert found("dead", of="live") == [dead.id]
        assert found("dead", of="history") == []
        assert found("ready", "dead") == sorted([ready.id, dead.id])
        assert found("ready", "scheduled", "waiting", "dead") == sorted([ready.id, later.id, dead.id])
        assert found("running", "done", "cancelled") == []
        assert found() == []
        assert ids(store, where=(Condition("state", "<", "ready"),)) == [dead.id]
        assert ids(store, where=(*where(state="ready"), *where(state="dead"))) == []

    def test_by_text(self, store: Store) -> None:
        one, two = new_job('"needle"'), new_job('"hay"')
        store.push([one, two])
        [row] = claim(store)
        store.settle([Bury(row.lease, "a needle in it")])
        assert ids(store, text="needle") == [one.id]
        assert ids(store, text="hay", of="history") == []
        assert ids(store, text="a", order="id") == [one.id, two.id]

    def test_by_token_while_the_reservation_is_in_force(self, store: Store, clock: StoreClock) -> None:
        jobs = [new_job(str(n)) for n in range(4)]
        store.push(jobs)
        (done, back, held) = claim(store, 3, token="t", lease=30.0)
        claim(store, token="u")
        asked: dict[str, Any] = {"of": "live", "where": where(queue=QUEUE, token="t"), "order": "id"}
        assert ids(store, **asked) == [done.id, back.id, held.id]
        store.settle([Commit(done.lease), Rollback(back.lease, 60.0)])
        assert ids(store, **asked) == [held.id]
        assert ids(store, of="history", where=where(queue=QUEUE, token="t")) == [done.id]
        assert ids(store, where=where(queue=QUEUE, token="t"), order="id") == [done.id, held.id]
        clock.advance(31)
        assert ids(store, **asked) == []
        assert ids(store, of="live", where=where(queue=QUEUE, token="unknown")) == []

    def test_by_flow(self, store: Store) -> None:
        root, other = new_id(), new_id()
        members = [new_job(str(n), flow_root=root, flow_node=root, flow_index=n) for n in range(3)]
        alike = f"{root[:-1]}{'0' if root[-1] != '0' else '1'}"
        store.push(
            [*members, *(new_job(flow_root=one, flow_node=one, flow_index=0) for one in (other, alike)), new_job()]
        )
        finish(store, members[0].id)
        assert ids(store, where=where(flow_root=root)) == [job.id for job in reversed(members)]
        assert ids(store, where=where(flow_root=root), order="id", limit=2) == [job.id for job in members]
        assert ids(store, of="live", where=where(flow_root=root)) == [members[2].id, members[1].id]
        assert ids(store, where=(*where(flow_root=root), *where(state="done"))) == [members[0].id]
        assert ids(store, where=where(flow_root=new_id())) == []
        assert ids(store, where=where(flow_root=root[:-1])) == []
        assert ids(store, where=where(flow_root="no id")) == []

    def test_by_node_of_a_flow(self, store: Store) -> None:
        root, node, other = new_ids(3)
        members = [new_job(flow_root=root, flow_node=node, flow_index=n) for n in range(2)]
        top = new_job(flow_root=root, flow_node=root, flow_index=0)
        handler, elsewhere = new_job(flow_root=root), new_job(flow_root=other, flow_node=other, flow_index=0)
        store.push([*members, top, handler, elsewhere, new_job()])
        finish(store, members[0].id)
        assert ids(store, where=where(flow_root=root, flow_node=node), order="id") == [job.id for job in members]
        assert ids(store, of="live", where=where(flow_root=root, flow_node=node)) == [members[1].id]
        assert ids(store, where=where(flow_node=root)) == [top.id]
        assert ids(store, where=where(flow_root=other, flow_node=node)) == []
        assert ids(store, where=where(flow_node="no id")) == []

    def test_by_order_key_and_who_holds_it(self, store: Store) -> None:
        same = [new_job(str(n), order_key="k") for n in range(3)]
        store.push([*same, new_job(order_key="l"), new_job(queue=OTHER, order_key="k"), new_job()])
        slot = order_slot(QUEUE, "k")
        of_key: dict[str, Any] = {"of": "live", "where": where(queue=QUEUE, order_key="k"), "order": "id"}
        assert ids(store, of="live", where=where(holds=slot)) == []
        [running] = [row for row in claim(store, 10) if row.order_key == "k"]
        assert running.id == same[0].id
        assert ids(store, **of_key) == [job.id for job in same]
        assert ids(store, of="live", where=where(holds=slot)) == [running.id]
        finish_one(store, running)
        assert ids(store, **of_key) == [job.id for job in same[1:]]
        assert ids(store, of="history", where=where(holds=slot)) == []

    def test_by_the_order_key_that_is_waited_for(self, store: Store) -> None:
        """Not by the same key of another queue, nor by a semaphore of that name."""
        store.set_semaphore("k", 0)
        jobs = {name: [new_job(str(n), queue=name, order_key="k") for n in range(3)] for name in (QUEUE, OTHER)}
        limited = new_job(limits=limits_text(Limits(("k",))))
        store.push([*jobs[QUEUE], *jobs[OTHER], limited])
        for name in jobs:
            assert [row.id for row in claim(store, 10, queue=name)] == [jobs[name][0].id]
            slot = order_slot(name, "k")
            waiting = [job.id for job in jobs[name][1:]]
            assert ids(store, of="live", where=where(waits_for=slot), order="arrival") == waiting
            assert ids(store, of="live", where=where(waits_for=slot), order="arrival", limit=1) == waiting
            parts = ("id", "waits_kind", "waits_queue", "waits_name")
            shown = all_of(store, Query("live", where(waits_for=slot), order="id", columns=parts))
            assert shown == [(job, *slot) for job in waiting]
            assert [row.waits_for for row in store.fetch(waiting).values()] == [slot, slot]
        slot = semaphore_slot("k")
        assert ids(store, of="live", where=where(waits_for=slot), order="arrival") == [limited.id]

    def test_by_the_slot_that_is_held_or_waited_for(self, store: Store) -> None:
        store.set_semaphore("slot", 2)
        store.set_semaphore("slot_", 9)
        jobs = [new_job(str(n), limits=LIMITED, queue=QUEUE if n % 2 else OTHER) for n in range(6)]
        store.push([*jobs, new_job(limits=limits_text(Limits(("slot_",)))), new_job(order_key="k", limits=LIMITED)])
        slot = semaphore_slot("slot")
        [first] = claim(store, queue=OTHER)
        rest = claim(store, 10)
        holders = [row.id for row in (first, *rest) if row.limits == LIMITED]
        assert len(holders) == 2
        assert ids(store, of="live", where=where(holds=slot), order="id") == sorted(holders)
        assert ids(store, of="live", where=where(holds=slot), order="id", limit=1) == sorted(holders)
        claim(store, 10, queue=OTHER)
        waiting = ids(store, of="live", where=where(waits_for=slot), order="arrival")
        since = [(row.waits_since, row.id) for row in store.fetch(waiting).values()]
        assert len(waiting) == 5
        assert since == sorted(since) or waiting == [job for _, job in sorted(since)]
        assert ids(store, of="live", where=where(waits_for=slot), order="arrival", limit=2) == waiting
        assert store.select(Query("live", where(waits_for=slot), order="arrival", limit=2)).rows == [
            row_of(store, job) for job in waiting[:2]
        ]
        assert ids(store, of="live", where=where(waits_for=semaphore_slot("nothing")), order="arrival") == []
        assert ids(store, of="live", where=where(holds=semaphore_slot("nothing"))) == []

    @pytest.mark.parametrize(
        "query",
        [
            Query(where=(Condition("payload", "=", "x"),)),
            Query(where=(Condition("queue", "like", "x"),)),  # type: ignore[arg-type]
            Query(where=(Condition("queue", "in", "x"),)),
            Query(where=(Condition("token", ">", "x"),)),
            Query(where=(Condition("flow_root", "in", ("x",)),)),
            Query(columns=("id", "colour")),
            Query("all", where(queue=QUEUE), order="due"),
            Query("live", order="due"),
            Query("live", where(queue=QUEUE), order="arrival"),
            Query("live", where(queue=QUEUE), order="finished"),
            Query(limit=0),
        ],
    )
    def test_others_are_refused(self, store: Store, query: Query) -> None:
        with pytest.raises(InvalidInput):
            store.select(query)
        with pytest.raises(InvalidInput):
            store.partition(query, 2)


def finish_one(store: Store, row: JobRow) -> None:
    """Commit a job."""
    assert store.settle([Commit(row.lease)]) == [JobState.DONE]


class TestOrders:
    def test_by_the_id_in_both_directions(self, store: Store) -> None:
        jobs = [new_job(queue=f"q{n % 3}") for n in range(20)]
        store.push(jobs)
        finish(store, jobs[0].id, jobs[3].id, queue="q0")
        wanted = sorted(job.id for job in jobs)
        for limit in (1, 7, 20, 21):
            assert ids(store, limit, order="id") == wanted
            assert ids(store, limit, order="newest") == wanted[::-1]
            assert ids(store, limit, where=where(queue="q1"), order="id") == [
                job.id for job in jobs if job.queue == "q1"
            ]

    def test_as_claims_go(self, store: Store) -> None:
        at = store.now() - 1000 * SECOND
        jobs = [new_job(str(n), priority=n % 3, run_at=at + n % 2) for n in range(12)]
        store.push([*jobs, new_job(queue=OTHER), new_job('"later"', delay=1000, priority=9)])
        first = claim(store, 2)
        left = [job for job in jobs if job.id not in {row.id for row in first}]
        wanted = sorted(left, key=lambda job: (-job.priority, job.run_at or 0, job.id))
        for limit in (1, 4, 20):
            found = ids(store, limit, of="live", where=where(queue=QUEUE), order="due")
            assert found[1:] == [job.id for job in wanted]
            assert row_of(store, found[0]).payload == '"later"'
        assert ids(store, 5, of="live", where=where(queue=QUEUE, state="ready"), order="due") == found[1:]

    def test_due_in_several_lanes(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 3, "uses_lanes": True})
        jobs = [new_job(lane=1 + n % 3, priority=n % 2) for n in range(9)]
        store.push(jobs)
        wanted = sorted(jobs, key=lambda job: (-job.priority, row_of(store, job.id).run_at, job.id))
        for limit in (1, 4, 9):
            assert ids(store, limit, of="live", where=where(queue=QUEUE), order="due") == [job.id for job in wanted]

    def test_by_the_moment_of_the_end(self, store: Store, clock: StoreClock) -> None:
        jobs = [new_job(str(n)) for n in range(6)]
        store.push([*jobs, new_job(queue=OTHER)])
        rows = {row.id: row for row in claim(store, 6)}
        ended = [jobs[n].id for n in (3, 0, 5, 1)]
        for job in ended:
            clock.advance(1)
            finish_one(store, rows[job])
        for limit in (1, 3, 4, 9):
            assert ids(store, limit, of="history", where=where(queue=QUEUE), order="finished") == ended
        old = Condition("finished_at", "<=", row_of(store, ended[1]).finished_at)
        assert ids(store, of="history", where=(*where(queue=QUEUE), old), order="finished") == ended[:2]

    def test_by_the_id_among_those_that_ended_at_once(self, store: Store) -> None:
        jobs = [new_job(str(n)) for n in range(9)]
        store.push(jobs)
        rows = claim(store, 9)
        store.settle([Commit(row.lease) for row in rows])
        ends = sorted((row_of(store, row.id).finished_at, row.id) for row in rows)
        for limit in (1, 2, 9):
            found = ids(store, limit, of="history", where=where(queue=QUEUE), order="finished")
            assert found == [job for _, job in ends]


class TestPages:
    def test_are_bounded_and_the_last_one_says_so(self, store: Store) -> None:
        store.push([new_job() for _ in range(5)])
        first = store.select(Query(limit=3))
        assert len(first.rows) == 3
        assert first.next is not None
        second = store.select(Query(limit=3, after=first.next))
        assert (len(second.rows), second.next) == (2, None)
        assert store.select(Query(limit=6)).next is None

    def test_of_many_jobs(self, store: Store) -> None:
        jobs = [new_job(queue=f"q{n % 3}") for n in range(2500)]
        store.push(jobs)
        assert ids(store, order="id", of="live") == sorted(job.id for job in jobs)

    @pytest.mark.parametrize("order", ["newest", "id"])
    def test_a_job_that_ends_between_pages_is_given_once(self, store: Store, order: Order) -> None:
        jobs = [new_job(str(n)) for n in range(8)]
        store.push(jobs)
        rows = claim(store, 8)
        found, query = [], Query(order=order, limit=2)
        page = store.select(query)
        while True:
            found += [row.id for row in page.rows]
            if page.next is None:
                break
            finish_one(store, rows.pop(3 % len(rows)))
            page = store.select(Query(order=order, limit=2, after=page.next))
        assert sorted(found) == sorted(job.id for job in jobs)

    def test_of_what_is_deleted_meanwhile_go_on(self, store: Store) -> None:
        jobs = [new_job(str(n)) for n in range(6)]
        store.push(jobs)
        first = store.select(Query("live", limit=3, order="id"))
        store.cancel([row.id for row in first.rows])
        rest = store.select(Query("live", limit=3, order="id", after=first.next))
        assert [row.id for row in rest.rows] == [job.id for job in jobs[3:]]


class TestColumns:
    @pytest.mark.parametrize("of", ["live", "history", "all"])
    def test_only_these_are_given_in_their_order(self, store: Store, of: str) -> None:
        live, done = new_job("1", tenant="t", timeout=90.5), new_job("2", timeout=0.25)
        store.push([done])
        finish(store, done.id)
        store.push([live])
        columns = ("tenant", "payload", "id", "finished_at", "result", "lease_until", "timeout")
        query = Query(of, columns=columns, order="id", limit=1)  # type: ignore[arg-type]
        whole = all_of(store, Query(of, order="id"))  # type: ignore[arg-type]
        assert all_of(store, query) == [tuple(getattr(row, name) for name in columns) for row in whole]

    def test_in_every_order(self, store: Store) -> None:
        store.push([new_job(str(n), priority=n % 2) for n in range(5)])
        finish(store, *(row.id for row in all_of(store, Query(order="id", limit=9))[:2]))
        asked: list[Callable[..., Query]] = [
            lambda **more: Query("live", where(queue=QUEUE), order="due", limit=2, **more),
            lambda **more: Query("history", where(queue=QUEUE), order="finished", limit=1, **more),
            lambda **more: Query("all", limit=2, **more),
        ]
        for query in asked:
            assert all_of(store, query(columns=("payload",))) == [(row.payload,) for row in all_of(store, query())]


class TestPartition:
    @pytest.mark.parametrize("parts", [1, 3, 7, 50])
    def test_the_parts_give_each_job_once(self, store: Store, parts: int) -> None:
        store.push([new_job(queue=f"q{n % 2}", tenant=f"t{n % 3}") for n in range(40)])
        wanted = Query("live", (Condition("tenant", "in", ("t0", "t1")),))
        cut = store.partition(wanted, parts)
        assert len(cut) <= parts
        assert sorted(row.id for part in cut for row in all_of(store, part)) == sorted(ids(store, where=wanted.where))

    def test_they_are_about_as_large(self, store: Store) -> None:
        store.push([new_job() for _ in range(400)])
        assert {len(all_of(store, part)) for part in store.partition(Query("live"), 4)} == {100}

    def test_a_part_may_be_cut_again(self, store: Store) -> None:
        store.push([new_job() for _ in range(40)])
        [first, *_] = store.partition(Query("live"), 2)
        assert sum(len(all_of(store, part)) for part in store.partition(first, 2)) == len(all_of(store, first))

    def test_of_live_and_finished_jobs(self, store: Store) -> None:
        jobs = [new_job(str(n)) for n in range(20)]
        store.push(jobs)
        finish(store, *(job.id for job in jobs[:9]))
        cut = store.partition(Query(), 3)
        assert sorted(row.id for part in cut for row in all_of(store, part)) == sorted(job.id for job in jobs)

    def test_of_nothing(self, store: Store) -> None:
        assert [all_of(store, part) for part in store.partition(Query("history"), 4)] == [[]]
