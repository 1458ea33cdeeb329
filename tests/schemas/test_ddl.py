"""Schemas in DDL, and from classes."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.schemas.kinds import PLAIN, Array, Decimals, Field, Kind, Map, Plain, Schema, Struct
from stanchion.schemas.models import schema_from


@pytest.mark.parametrize(
    ("given", "ddl"),
    [
        ("id bigint not null, city string, miles double", "id bigint NOT NULL, city string, miles double"),
        ("ID LONG NOT  NULL,x:INTEGER", "ID bigint NOT NULL, x int"),
        ("a byte, b short, c real, d bool, e timestamp_ltz", "a tinyint, b smallint, c float, d boolean, e timestamp"),
        ("a decimal, b decimal(4), c dec(4, 2)", "a decimal(10,0), b decimal(4,0), c decimal(4,2)"),
        ("a array<struct<b: int not null, c: map<string, array<date>>>>",) * 2,
        ("`a b` int, `x``y` int comment 'it is, not null', größe string", "`a b` int, `x``y` int, `größe` string"),
        ("not int, null int, array array<int>, struct struct<map:map<string,int>>",) * 2,
    ],
)
def test_ddl_is_read_and_written(given: str, ddl: str) -> None:
    written = schema_from(given).ddl
    assert written.replace(", ", ",").replace(": ", ":").lower() == ddl.replace(", ", ",").replace(": ", ":").lower()
    assert schema_from(written).ddl == written


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "the name of a field"),
        ("id", "the type of field id"),
        ("id bigint not", "'null'"),
        ("id bigint city string", "a comma"),
        ("id bigint,", "the name of a field"),
        ("id bignit", "'bignit'"),
        ("id binary", "unknown here"),
        ("id decimal(39,2)", "1 to 38"),
        ("id decimal(2,3)", "no more than these"),
        ("id decimal(x)", "digits"),
        ("id array<int", "'>'"),
        ("id map<int,int>", "keys"),
        ("a int, A string", "can't distinguish"),
        ("a int, a int", "can't distinguish"),
        ("s struct<a:int,a:int>", "can't distinguish"),
        ("a.b int", "backquotes"),
        ("`` int", "the name"),
        ("`a\n` int", "printable"),
        ("id bigint; drop table x", "a comma"),
        ("a " + "array<" * 25 + "int" + ">" * 25, "nested"),
        (", ".join(f"f{n} int" for n in range(1001)), "at most 1000"),
    ],
)
def test_wrong_ddl_is_refused(given: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=r"schema|field") as refused:
        schema_from(given)
    assert said in str(refused.value)


NAMES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=5).filter(
    str.isprintable
)
SCALARS = st.sampled_from(PLAIN).map(Plain) | st.integers(1, 38).map(lambda n: Decimals(n, n // 2))


def structs(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Struct]:
    fields = st.builds(Field, NAMES, kinds, st.booleans())
    several = st.lists(fields, min_size=1, max_size=4, unique_by=lambda one: one.name.casefold())
    return several.map(lambda some: Struct(tuple(some)))


KINDS = st.recursive(SCALARS, lambda kinds: kinds.map(Array) | kinds.map(Map) | structs(kinds), max_leaves=6)


@given(structs(KINDS))
def test_any_schema_is_read_as_it_was_written(struct: Struct) -> None:
    assert schema_from(Schema(struct).ddl).struct == struct


class Color(enum.Enum):
    RED = "red"


@dataclass
class Place:
    city: str
    at: tuple[float, ...] = ()


@dataclass
class Order:
    id: int
    place: Place | None
    amount: Decimal
    when: datetime
    day: date
    key: UUID
    color: Color
    kind: Literal["a", "b"]
    short: Annotated[str, "short"]
    tags: Sequence[str] = field(default_factory=list)
    notes: Mapping[str, list[int]] | None = None
    done: bool = False


ORDER = (
    "id bigint NOT NULL, place struct<city:string NOT NULL,at:array<double>>, amount decimal(38,18) NOT NULL, "
    "when timestamp NOT NULL, day date NOT NULL, key string NOT NULL, color string NOT NULL, kind string NOT NULL, "
    "short string NOT NULL, tags array<string>, notes map<string,array<bigint>>, done boolean"
)


class Item(pydantic.BaseModel):
    id: int
    place: Place | None = None
    zone: str = pydantic.Field(alias="time zone")


class Leg(TypedDict):
    origin: str
    miles: int | None
    stops: NotRequired[list[str]]


class Trip(TypedDict, total=False):
    id: Required[int]
    legs: list[Leg]


def test_classes_stand_for_schemas() -> None:
    assert schema_from(Trip).ddl == (
        "id bigint NOT NULL, legs array<struct<origin:string NOT NULL,miles:bigint,stops:array<string>>>"
    )
    assert schema_from(Order).ddl == ORDER
    assert schema_from(Item).ddl == (
        "id bigint NOT NULL, place struct<city:string NOT NULL,at:array<double>>, `time zone` string NOT NULL"
    )


def test_their_instances_are_payloads() -> None:
    when = datetime.fromisoformat("2026-01-31T08:00:00+00:00")
    order = Order(
        *(1, Place("Rome", (1.5,)), Decimal("1E+2"), when, when.date(), UUID(int=1), Color.RED, "a", "s"),
        notes={"n": [1]},
    )
    codec = Codec()
    assert codec.decode(codec.encode([order]))[0] == {
        **{"id": 1, "place": {"city": "Rome", "at": [1.5]}, "amount": "100", "when": "2026-01-31T08:00:00+00:00"},
        **{"day": "2026-01-31", "key": str(UUID(int=1)), "color": "red", "kind": "a", "short": "s"},
        **{"tags": [], "notes": {"n": [1]}, "done": False},
    }
    assert codec.decode(codec.encode(Item.model_validate({"id": 1, "time zone": "UTC"}))) == {
        **{"id": 1, "place": None, "time zone": "UTC"},
    }
    for unknown in (object(), Order, Item, {1}):
        with pytest.raises(InvalidInput, match="can't be encoded"):
            codec.encode(unknown)


@dataclass
class Endless:
    inner: list[Endless]


@dataclass
class Several:
    one: int | str


@dataclass
class Strange:
    one: complex


@dataclass
class Empty: ...


class OldPydantic:
    """As the models of Pydantic 1 look."""

    __fields__ = ()

    @classmethod
    def parse_obj(cls) -> None: ...


@pytest.mark.parametrize("model", [Endless, Several, Strange, Empty, int, 5, [], Place("Rome")])
def test_other_classes_are_refused(model: Any) -> None:
    with pytest.raises(InvalidInput):
        schema_from(model)


def test_old_pydantic_is_told_what_to_install() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'stanchion\[pydantic\]'"):
        schema_from(OldPydantic)
