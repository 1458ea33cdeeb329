"""The table of the fields of jobs says what the records of jobs have."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from stanchion.jobs.options import PushOptions
from stanchion.stores.fields.jobs import (
    BY_RULE,
    FIELDS,
    FINISHED,
    KINDS,
    LIVE,
    OPTIONS,
    UNCLAIMED,
    Field,
    Kind,
    Of,
    Step,
    cleared,
)
from stanchion.stores.fields.sql import GIVEN, stored_as_given
from stanchion.stores.records.jobs import JobRow, NewJob

PYTHON_TYPES = dict.fromkeys(Kind, frozenset[type]((str,))) | {
    **dict.fromkeys((Kind.MICROS, Kind.SMALL, Kind.INT), frozenset[type]((int,))),
    Kind.REAL: frozenset((float,)),
    Kind.FLAG: frozenset((bool,)),
    Kind.CONTENT: frozenset((str, bytes)),
}


def types_of(hint: Any) -> set[type]:
    return set(get_args(hint) or (hint,))


def test_it_has_the_fields_of_stored_and_new_jobs() -> None:
    assert tuple(field.name for field in FIELDS) == JobRow._fields
    assert set(KINDS) == {*JobRow._fields, *NewJob._fields}
    assert {*LIVE, *FINISHED} == set(FIELDS)


def test_claims_read_all_live_fields_but_the_last() -> None:
    assert tuple(field.name for field in LIVE[-len(UNCLAIMED) :]) == UNCLAIMED
    live = [field.name for field in LIVE]
    assert tuple(live) == JobRow._fields[: len(live)]


def test_the_options_of_a_push_are_its_typed_ones() -> None:
    assert {one.name for one in OPTIONS} | {"rate", "rate_by", "rate_key"} == PushOptions.__optional_keys__
    hints = get_type_hints(PushOptions)
    assert {one.name for one in OPTIONS if one.optional} == {
        one.name for one in OPTIONS if NoneType in types_of(hints[one.name])
    }


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_field_has_the_type_of_its_kind(field: Field) -> None:
    hint = types_of(get_type_hints(JobRow)[field.name])
    assert hint - {NoneType} == PYTHON_TYPES[field.kind]
    assert (NoneType in hint) == (not field.required)
    if field.name in NewJob._fields:
        assert types_of(get_type_hints(NewJob)[field.name]) - {NoneType} == PYTHON_TYPES[field.kind]


def test_steps_clear_fields_that_may_be_missing() -> None:
    assert all(not field.required or field.default in (0, False) for field in FIELDS if field.until is not None)
    assert (
        set(cleared(Step.FREED)) < set(cleared(Step.RELEASED)) < set(cleared(Step.RESTARTED)) < set(cleared(Step.MOVED))
    )


def test_each_column_of_a_new_job_has_one_source() -> None:
    as_given = {name for name in GIVEN if name in JobRow._fields and NewJob._field_defaults.get(name) is None}
    filled = set(stored_as_given())
    assert filled.isdisjoint(as_given)
    assert filled | as_given | set(BY_RULE) == {field.name for field in FIELDS if field.of is not Of.HISTORY}
