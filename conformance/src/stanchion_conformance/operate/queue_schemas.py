"""Schemas of queues: payloads are checked by any process on their way in, and schemas grow by nullable fields only."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion, group
from stanchion.context import context_of
from stanchion.copying.transfer import Transfer
from stanchion.errors import InvalidInput, PayloadMisfit, SchemaRefused
from stanchion.schemas import stored
from stanchion.schemas.stored import KIND
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, NewStore, all_at_once, new_job, payloads

ORDERS = "id bigint not null, city string, miles double"


@dataclass
class Order:
    """The same fields, but one."""

    id: int
    city: str | None = None


@pytest.fixture
def orders(app: Stanchion) -> Queue:
    """A queue with a schema."""
    return app.queue(QUEUE, schema=ORDERS)


Release = Callable[[Any], Queue]
"""Starts a process whose code declares this schema, and uses the queue once."""


@pytest.fixture
def release(new_store: NewStore) -> Release:
    """Return a function that starts a process with a schema in its code."""

    def started(schema: Any) -> Queue:
        queue = Stanchion(store=new_store()).queue(QUEUE, schema=schema)
        queue.push({"id": 1})
        return queue

    return started


class TestQueueSchemas:
    def test_what_fits_is_stored_as_it_is(self, orders: Queue, other_q: Queue) -> None:
        orders.push({"id": 1, "city": "Rome"})
        orders.push_many([Push({"id": 2, "miles": 3}), {"id": 3, "city": None}])
        orders.push(Order(4, "Oslo"))
        assert payloads(other_q.reserve(4)) == [
            *({"id": 1, "city": "Rome"}, {"id": 2, "miles": 3}, {"id": 3, "city": None}, {"id": 4, "city": "Oslo"}),
        ]
        assert (found := other_q.schema) is not None
        assert (found.version, found.ddl) == (1, "id bigint NOT NULL, city string, miles double")

    def test_what_does_not_fit_is_not_stored(self, orders: Queue) -> None:
        for payload, field in (({}, "id"), ({"id": 1, "miles": "3"}, "miles"), ({"id": 1, "town": 1}, "town"), (1, "")):
            with pytest.raises(PayloadMisfit) as refused:
                orders.push(payload)
            assert (refused.value.queue, refused.value.field) == (QUEUE, field)
            assert QUEUE in str(refused.value)
            assert field in str(refused.value)
        with pytest.raises(PayloadMisfit) as refused:
            orders.push_many([{"id": 1}, {"id": None}])
        assert (refused.value.row, refused.value.field, refused.value.reason) == (2, "id", "is null")
        assert orders.size().total == 0

    def test_a_process_that_declares_nothing_checks_too(self, orders: Queue, other_q: Queue) -> None:
        orders.push({"id": 1})
        with pytest.raises(PayloadMisfit):
            other_q.push({"id": "1"})
        other_q.push({"id": 2})
        copy = pickle.loads(pickle.dumps(context_of(orders).schemas))  # noqa: S301 - our own
        assert copy.declared == context_of(orders).schemas.declared

    def test_one_of_another_queue_costs_a_push_nothing(
        self, app: Stanchion, orders: Queue, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.context.queues.cached_settings.SETTINGS_SECONDS", 1e6)
        app.queue("other").push(1)
        assert context_of(orders).schemas.declared
        for name in ("values", "queues"):
            monkeypatch.setattr(store, name, None)
        app.queue("other").push(2)

    def test_encrypted_payloads_are_checked(self, store: Store) -> None:
        fernet = pytest.importorskip("cryptography.fernet")
        queue = Stanchion(store=store, keys=[fernet.Fernet.generate_key()]).queue(QUEUE, schema=ORDERS)
        queue.push({"id": 1})
        with pytest.raises(PayloadMisfit):
            queue.push({"id": "1"})

    def test_calls_of_tasks_are_no_payloads_of_the_queue(self, app: Stanchion, orders: Queue) -> None:
        @app.task(name="work", queue=QUEUE)
        def work(one: int) -> int:
            return one

        handle = work.enqueue(1)
        app.drain([QUEUE])
        assert handle.state is JobState.DONE
        assert orders.schema is not None

    def test_a_job_moves_only_where_it_fits(self, app: Stanchion, orders: Queue) -> None:
        entry = app.queue("entry")
        entry.push({"id": "1"})
        orders.push({"id": 0})
        (job,) = entry.reserve()
        with pytest.raises(PayloadMisfit):
            job.move(QUEUE)
        job.move(QUEUE, payload={"id": 1})
        assert payloads(orders.reserve(2)) == [{"id": 0}, {"id": 1}]

    def test_an_item_of_a_pipeline_that_does_not_fit_is_dead_where_it_was(self, app: Stanchion) -> None:
        etl = app.pipeline("etl")

        @etl.station("clean", to="load")
        def clean(item: Any) -> Any:
            return item

        @etl.station("load")
        def load(item: Any) -> Any:
            return item

        app.queue("etl.load", schema="id bigint not null")
        good, bad = (etl.push({"id": id_}) for id_ in (1, "1"))
        app.drain()
        found = {one.id: app.get(one.id) for one in (good, bad)}
        assert [job and job.state for job in found.values()] == [JobState.DONE, JobState.DEAD]
        assert "field id is a string, not bigint" in str(found[bad.id] and found[bad.id].errors)  # type: ignore[union-attr]

    def test_a_flow_with_a_member_that_does_not_fit_is_not_stored(self, app: Stanchion, orders: Queue) -> None:
        orders.push({"id": 0})
        with pytest.raises(PayloadMisfit):
            app.enqueue_flow(group(Push({"id": 1}, queue=QUEUE), Push({"id": "2"}, queue=QUEUE)))
        assert orders.size().total == 1

    def test_an_event_that_does_not_fit_one_of_its_queues_reaches_none(self, app: Stanchion, orders: Queue) -> None:
        orders.push({"id": 0})
        topic = app.topic("events")
        topic.subscribe("any")
        topic.subscribe("typed", queue=QUEUE)
        with pytest.raises(PayloadMisfit):
            topic.push({"id": "1"})
        topic.push({"id": 1})
        assert payloads(orders.reserve(2)) == [{"id": 0}, {"id": 1}]
        assert app.queue("events.any").size().total == 1

    def test_strange_names_of_fields(self, app: Stanchion) -> None:
        names = ("a.b", "`x`", "__proto__", "größe", "a b", "'q'\"", "\\")
        columns = [f"`{name.replace('`', '``')}` struct<`{name.replace('`', '``')}`:array<int>>" for name in names]
        queue = app.queue(QUEUE, schema=", ".join(columns))
        queue.push({name: {name: [1, None]} for name in names})
        for name in names:
            with pytest.raises(PayloadMisfit) as refused:
                queue.push({name: {name: [1, "2"]}})
            assert refused.value.field.endswith("[1]")
        found = queue.schema
        assert found is not None
        assert [field.name for field in found.fields] == list(names)


class TestSchemaEvolution:
    def test_nullable_fields_are_added_by_any_release(self, release: Release, q: Queue) -> None:
        old = release("id bigint not null, place struct<city:string>")
        new = release("id bigint not null, place struct<city:string,zip:string>, note string")
        assert release("id bigint not null, place struct<city:string>").schema == new.schema
        other = release("id bigint not null, tags array<string>").schema
        assert other is not None
        assert other.version == 3
        assert other.ddl == (
            "id bigint NOT NULL, place struct<city:string,zip:string>, note string, tags array<string>"
        )
        for queue in (old, new, q):  # also a process that has read an older one
            queue.push({"id": 1, "place": {"zip": "00100"}, "note": "n", "tags": ["t"]})

    @pytest.mark.parametrize(
        ("schema", "field"),
        [
            ("id int not null, city string, miles double", "id"),
            ("id bigint, city string, miles double", "id"),
            ("city string, miles double", "id"),
            ("id bigint not null, city string, miles double, note string not null", "note"),
            ("id bigint not null, city string, miles double not null", "miles"),
            ("id bigint not null, city array<string>, miles double", "city"),
        ],
    )
    def test_other_changes_are_refused(self, orders: Queue, release: Release, schema: str, field: str) -> None:
        orders.push({"id": 1})
        with pytest.raises(SchemaRefused) as refused:
            release(schema)
        assert refused.value.field == field
        assert "only nullable fields may be added" in str(refused.value)
        found = orders.schema
        assert found is not None
        assert found.version == 1

    def test_what_processes_declare_at_once_is_all_there(self, new_store: NewStore) -> None:
        apps = [Stanchion(store=new_store()) for _ in range(4)]

        def declare(n: int) -> None:
            apps[n].queue(QUEUE, schema=f"id bigint not null, f{n} string").push({"id": n, f"f{n}": "x"})

        all_at_once([partial(declare, n) for n in range(4)])
        found = apps[0].queue(QUEUE).schema
        assert found is not None
        assert {field.name for field in found.fields} == {"id", "f0", "f1", "f2", "f3"}
        assert found.version == 4

    def test_a_declaration_between_the_read_and_the_write_of_another_is_there(
        self, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = (Stanchion(store=new_store()) for _ in range(2))
        read = stored.stored_schema

        def read_just_before_the_other_declares(store: Store, queue: str) -> stored.Stored:
            monkeypatch.setattr(stored, "stored_schema", read)
            found = read(store, queue)
            other.queue(QUEUE, schema="id bigint not null, later string").push({"id": 2})
            return found

        monkeypatch.setattr(stored, "stored_schema", read_just_before_the_other_declares)
        found = one.queue(QUEUE, schema="id bigint not null, city string")
        found.push({"id": 1})
        assert found.schema is not None
        assert {field.name for field in found.schema.fields} == {"id", "city", "later"}

    def test_an_operator_puts_any_schema_in_force(self, orders: Queue, other_q: Queue) -> None:
        orders.push({"id": 1})
        other_q.configure(schema="id string", max_rate=5)
        assert other_q.settings.max_rate == 5
        context_of(orders).settings.forget()
        context_of(orders).schemas.forget()
        orders.push({"id": "one"})
        other_q.configure(schema=None)
        assert other_q.schema is None
        other_q.push([1])
        other_q.configure(schema="id int")
        assert (found := other_q.schema) is not None
        assert found.version == 4

    def test_the_schema_goes_with_the_queue(self, orders: Queue, q: Queue, release: Release) -> None:
        orders.push({"id": 1})
        q.delete()
        fresh = release("id int not null").schema
        assert fresh is not None
        assert (fresh.ddl, fresh.version) == ("id int NOT NULL", 2)

    def test_a_queue_that_was_deleted_meanwhile_gets_its_schema_again(
        self, orders: Queue, other_q: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.context.queues.schemas.LOOK_SECONDS", 0)
        orders.push({"id": 1})
        other_q.delete()
        context_of(orders).keep_declared()
        orders.push({"id": 2})
        assert (found := other_q.schema) is not None
        assert found.version == 2

    def test_releases_that_know_no_schema_keep_it(self, orders: Queue, other_q: Queue) -> None:
        orders.push({"id": 1})
        store = context_of(other_q).store
        store.push([new_job('{"id":"old"}')])
        store.configure(QUEUE, {"lease": 60.0, "declared": {"lease": 60.0}})
        assert other_q.schema == orders.schema
        assert payloads(other_q.reserve(2)) == [{"id": 1}, {"id": "old"}]

    def test_a_schema_of_a_newer_release_is_not_checked(self, orders: Queue, release: Release) -> None:
        orders.push({"id": 1})
        assert context_of(orders).store.compare_and_set(KIND, QUEUE, "id quantum", 1)
        context_of(orders).schemas.forget()
        orders.push({"id": 1, "spin": 2})
        with pytest.raises(InvalidInput, match="quantum"):
            release(ORDERS)

    def test_a_death_in_a_declaration_leaves_no_schema(self, q: Queue, other_q: Queue, release: Release) -> None:
        context_of(q).store.configure(QUEUE, {"schema_after": 0})
        other_q.push([1])
        assert other_q.schema is None
        found = release(ORDERS).schema
        assert found is not None
        assert found.version == 1

    def test_a_copy_of_the_queue_has_it(self, orders: Queue) -> None:
        orders.push({"id": 1})
        destination = MemoryStore()
        Transfer(context_of(orders).store, destination, [QUEUE], settle=0).run()
        copy = Stanchion(store=destination).queue(QUEUE)
        assert copy.schema is not None
        assert orders.schema is not None
        assert copy.schema.struct == orders.schema.struct
        with pytest.raises(PayloadMisfit):
            copy.push({})
