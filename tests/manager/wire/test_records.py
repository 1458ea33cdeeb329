"""Records become messages and the same records again."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stanchion.stores.records as package
from stanchion.core.values.framing import chunk_with
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import JobRow, Lease, NewJob
from stanchion.stores.records.outcomes import (
    Bury,
    Commit,
    Pass,
    Passage,
    ResultTable,
    TableColumn,
    TableRows,
)
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.query import Page
from stanchion.stores.wakeup.signs import Signs
from stanchion.stores.wire import outcomes
from stanchion.stores.wire.codec import Codec
from stanchion.stores.wire.jobs import JOB, NEW_JOB
from stanchion.stores.wire.messages import pb, read, written
from stanchion.stores.wire.outcomes import Elsewhere, Refused
from stanchion.stores.wire.store import signs_in, wake
from stanchion.stores.wire.values import page_fields, page_in
from tests.manager.wire.examples import SINGLE, TEXTS, codecs, plain, records

CODECS = codecs()
OUTCOMES = [kind for kind in CODECS if getattr(kind, "_fields", ("",))[0] == "lease"]
PLAIN = [kind for kind in CODECS if kind not in OUTCOMES]

NEWER = (900 << 3).to_bytes(2, "little")


def newer(data: bytes) -> bytes:
    """Return a message with two fields of a later release: a number and a text."""
    return data + b"\x98\x3f\x2a" + b"\x9a\x3f\x05later"


def same(one: Any, other: Any) -> bool:
    """Compare also the types, and the fields that the records themselves leave out of comparisons."""
    return bool(plain(one) == plain(other))


def names(kinds: Iterable[type]) -> Any:
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.__name__) for kind in kinds])


@names(PLAIN)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_record(kind: type, data: Any) -> None:
    record, codec = data.draw(records(kind)), CODECS[kind]
    message = written(codec.to_message(record))
    assert same(codec.taken(read(codec.message, message)), record)
    assert same(codec.taken(read(codec.message, newer(message))), record), "fields of a later release must be ignored"


@names(OUTCOMES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_outcome(kind: type, data: Any) -> None:
    outcome = data.draw(records(kind))
    message = written(outcomes.to_message(outcome))
    assert same(outcomes.reported(read(pb.Outcome, newer(message))), outcome)


@given(
    st.lists(records(JobRow), max_size=3) | st.lists(st.lists(SINGLE, max_size=3).map(tuple), max_size=3),
    st.none() | TEXTS,
)
@settings(max_examples=30, deadline=None)
def test_page(rows: list[Any], cursor: str | None) -> None:
    page = Page(rows, cursor)
    assert same(page_in(read(pb.SelectReply, written(pb.SelectReply(**page_fields(page))))), page)


@given(st.none() | st.frozensets(TEXTS, max_size=2), st.none() | st.frozensets(TEXTS, max_size=2))
def test_signs(of_queues: frozenset[str] | None, finished: frozenset[str] | None) -> None:
    signs = Signs(of_queues, finished)
    assert signs_in(read(pb.Wake, written(wake(signs, connected=True)))) == signs


def test_large_texts() -> None:
    large = "😀\0" * 200_000
    job = NewJob("1", "q", large, headers=large)
    assert NEW_JOB.taken(read(pb.NewJob, written(NEW_JOB.to_message(job)))) == job
    done = Commit(Lease("q", "1", "t"), result=large, jobs=(job,))
    assert outcomes.reported(read(pb.Outcome, written(outcomes.to_message(done)))) == done


def test_the_later_form_of_a_content_is_taken() -> None:
    """A peer leaves the text of a chunk out; should both come, the chunk is the content."""
    chunk = chunk_with(2, b"\xff")
    message = pb.NewJob(id="1", queue="q", payload="{}", payload_chunk=chunk)
    assert NEW_JOB.taken(message).payload == chunk
    assert not NEW_JOB.to_message(NewJob("1", "q", chunk)).payload


def test_a_pass_without_an_end_is_refused() -> None:
    message = pb.Outcome(id="1", token="t", queue="q", pass_through=pb.Pass(then=pb.Leaving()))
    with pytest.raises(InvalidInput, match="no outcome that this release knows"):
        outcomes.reported(message)


def test_each_record_has_a_codec() -> None:
    """A new record or field has to be added to the protocol; prepared jobs and rows don't go through managers."""
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        of = import_module(f"{package.__name__}.{module.name}")
        found |= {
            kind
            for _, kind in inspect.getmembers(of, inspect.isclass)
            if kind.__module__ == of.__name__ and (is_dataclass(kind) or hasattr(kind, "_fields"))
        }
    elsewhere = {Page, PlainColumns, Prepared, ResultTable, TableColumn, TableRows}
    assert found - elsewhere == CODECS.keys() - {Refused, Elsewhere}
    for kind, codec in CODECS.items():
        names_of = [one.name for one in fields(kind)] if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
        assert [*codec.by_name] == [name for name in names_of[kind in OUTCOMES :] if (kind, name) != (Commit, "rows")]


def test_rows_are_refused_rather_than_lost() -> None:
    table = ResultTable("days", (TableColumn("n", "bigint"),))
    end = Commit(Lease("q", "1", "t"), rows=(TableRows(table, ((1,),)),))
    for outcome in (end, Pass(end.lease, (Passage("r"),), end)):
        with pytest.raises(InvalidInput, match="does not carry all of this Commit"):
            outcomes.to_message(outcome)


def test_a_field_that_the_protocol_lacks_is_refused() -> None:
    class Longer(Bury):
        pass

    with pytest.raises(TypeError, match="has no error for Longer"):
        Codec(Longer, pb.Abandon, leading=1)


MEANINGS = {
    "NewJob": {"on_duplicate": "return", "max_attempts": 25, "lane": -1},
    "JobRow": {"max_attempts": 25},
    "Claim": {"rows": True, "min_rank": -32768},
    "Move": {"lane": -1},
    "Query": {"of": "all", "order": "newest", "limit": 1000},
    "QueueSettings": {
        "lanes": 1,
        "lanes_per_tenant": 1,
        "history_ttl": 604800.0,
        "lease": 30.0,
        "partitions": 1,
    },
    "FlowNode": {"kind": "one", "size": 1, "closed": True, "state": "running"},
    "WorkerRow": {"state": "running"},
    "Beat": {"sharing": 1},
    "Capabilities": {"feed": "overlap"},
}
"""What the protocol says of absent fields, where that is neither zero nor nothing. It never changes."""


@names([kind for kind in CODECS if kind.__name__ not in ("ExtendFlow", "QueueStats")])
def test_absent_fields(kind: type) -> None:
    codec = CODECS[kind]
    defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
    if is_dataclass(kind):
        defaults = {one.name: one.default for one in fields(kind) if one.default is not MISSING}
    assert {name: value for name, value in defaults.items() if value} == MEANINGS.get(kind.__name__, {})
    for name, value in defaults.items():
        if (kind, name) == (Commit, "rows"):
            continue
        carried = codec.message.DESCRIPTOR.fields_by_name[codec.by_name[name][0]]
        enum = carried.enum_type is not None
        assert carried.has_presence == (not carried.is_repeated and not enum and (value is None or bool(value))), name


@pytest.mark.parametrize(
    "job",
    [
        NewJob("1", "q", "\ud800"),
        NewJob("1", "q", "", priority=2**31),
        NewJob("1", "q", "", run_at=2**63),
        NewJob("1", "q", "", delay=float("nan")),
        NewJob("1", "q", "", timeout=float("inf")),
        NewJob("1", "q", "", flow_index="2"),  # type: ignore[arg-type]
    ],
)
def test_values_that_no_message_carries(job: NewJob) -> None:
    with pytest.raises(InvalidInput, match="protocol"):
        NEW_JOB.to_message(job)


def test_long_durations_are_cut() -> None:
    assert NEW_JOB.taken(NEW_JOB.to_message(NewJob("1", "q", "", timeout=1e300))).timeout == 2**63 / 1e6


def test_a_job_down_has_more_than_the_row() -> None:
    row = JobRow("1", "q", 0, "running", 0, 0, 1, 1, "{}")
    message = pb.Job(**JOB.fields(row), epoch=7, slice=3)
    assert JOB.taken(message) == row
