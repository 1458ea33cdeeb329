"""The pipelines that are measured: raw → clean → short or long, with next to nothing to do at each station.

`line` ends all items in `short`, so that chunks are never divided.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from stanchion import Send, Stanchion
from stanchion.pipelines import Pipeline

if TYPE_CHECKING:
    import pandas as pd

KM = 1.609
SHORT = 1500
"""Miles below which a flight is short: about half of them."""
_AT_ONCE = 500_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def items(count: int) -> Iterator[pa.Table]:
    """Yield tables of so many flights in all; one is about 95 bytes of JSON, and its words hardly repeat."""
    chance = random.Random(7)
    words = ["".join(chance.choices(_LETTERS, k=chance.randint(4, 9))) for _ in range(20_000)]
    planes = [f"N{chance.randrange(10**5):05d}" for _ in range(4000)]
    for first in range(0, count, _AT_ONCE):
        size = min(_AT_ONCE, count - first)
        yield pa.table(
            {
                "n": pa.array(range(first, first + size)),
                "plane": pa.array(chance.choices(planes, k=size)),
                "miles": pa.array(chance.choices(range(100, 2 * SHORT - 100), k=size)),
                "note": pa.array(" ".join(chance.choices(words, k=3)) for _ in range(size)),
            }
        )


def declared(app: Stanchion, kind: str, **options: Any) -> Pipeline:
    """Declare the stations with functions of this kind: item, arrow, pandas or line. `options`: of the pipeline.

    Of these, `failing item` and so on have a first station where some items fail.
    """
    from benchmarks.pipelines import failing

    etl = app.pipeline("bench", **options)
    first, rest = {
        "item": (_raw_item, _of_items),
        "arrow": (_raw_arrow, _of_arrow),
        "pandas": (_raw_pandas, _of_pandas),
        "line": (_raw_arrow, _in_a_line),
        "failing item": (failing.of_items, _of_items),
        "failing column": (failing.in_a_column, _of_arrow),
        "failing arrow": (failing.of_arrow, _of_arrow),
        "failing pandas": (failing.of_pandas, _of_pandas),
    }[kind]
    first(etl)
    rest(etl)
    return etl


def _raw_item(etl: Pipeline) -> None:
    @etl.station("raw", to="clean")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "km": item["miles"] * KM}


def _raw_arrow(etl: Pipeline) -> None:
    @etl.station("raw", to="clean", takes="arrow")
    def raw(items: pa.Table) -> pa.Table:
        return items.append_column("km", pc.multiply(items["miles"], KM))


def _raw_pandas(etl: Pipeline) -> None:
    @etl.station("raw", to="clean", takes="pandas")
    def raw(items: pd.DataFrame) -> pd.DataFrame:
        return items.assign(km=items["miles"] * KM)


def _of_items(etl: Pipeline) -> None:
    @etl.station("clean", to=["short", "long"])
    def clean(item: dict[str, Any]) -> Send:
        return Send("short" if item["miles"] < SHORT else "long")

    @etl.station("short")
    def short(item: dict[str, Any]) -> dict[str, Any]:
        return {"n": item["n"], "km": item["km"]}

    @etl.station("long")
    def long(item: dict[str, Any]) -> dict[str, Any]:
        return {"n": item["n"], "km": item["km"]}


def _of_arrow(etl: Pipeline) -> None:
    @etl.station("clean", to=["short", "long"], takes="arrow")
    def clean(items: pa.Table) -> list[Send]:
        short = pc.less(items["miles"], SHORT)
        return [Send("short", items.filter(short)), Send("long", items.filter(pc.invert(short)))]

    @etl.station("short", takes="arrow")
    def short(items: pa.Table) -> pa.Table:
        return items.select(["item", "n", "km"])

    @etl.station("long", takes="arrow")
    def long(items: pa.Table) -> pa.Table:
        return items.select(["item", "n", "km"])


def _of_pandas(etl: Pipeline) -> None:
    @etl.station("clean", to=["short", "long"], takes="pandas")
    def clean(items: pd.DataFrame) -> list[Send]:
        short = items["miles"] < SHORT
        return [Send("short", items[short]), Send("long", items[~short])]

    @etl.station("short", takes="pandas")
    def short(items: pd.DataFrame) -> pd.DataFrame:
        return items[["item", "n", "km"]]

    @etl.station("long", takes="pandas")
    def long(items: pd.DataFrame) -> pd.DataFrame:
        return items[["item", "n", "km"]]


def _in_a_line(etl: Pipeline) -> None:
    @etl.station("clean", to="short", takes="arrow")
    def clean(items: pa.Table) -> pa.Table:
        return items.append_column("short", pc.less(items["miles"], SHORT))

    @etl.station("short", takes="arrow")
    def short(items: pa.Table) -> pa.Table:
        return items.select(["item", "n", "km"])
