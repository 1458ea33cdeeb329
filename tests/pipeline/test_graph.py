"""Stations drawn, as text and as a picture."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.pipelines.svg_layout import laid_out

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def etl() -> Pipeline:
    return Stanchion("memory://").pipeline("etl")


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own text


def declare(etl: Pipeline, **links: list[str]) -> Pipeline:
    for name, to in links.items():
        etl.station(name, to=to)(lambda item: item)
    return etl


def test_a_line(etl):
    assert declare(etl, raw=["clean"], clean=["end"], end=[]).graph() == "raw ───► clean ───► end"


def test_forks_joins_and_loops(etl):
    declare(etl, raw=["one", "two"], one=["one", "end"], two=["raw", "end"], end=[])
    etl.station("manual", to="end", entry=True)(lambda item: item)
    assert etl.graph().splitlines() == [
        "raw ─┬─► one ─┬─► ↺ one",
        "     │        └─► end",
        "     └─► two ─┬─► ↺ raw",
        "              └─► end ↑",
        "manual ───► end ↑",
    ]


def test_a_spark_station_is_marked(etl):
    declare(etl, raw=["daily"])
    etl.spark_station("daily", schema="n int")(lambda df: df)
    assert etl.graph() == "raw ───► daily (spark)"
    assert 'class="station spark"' in etl.svg()


def test_the_picture_is_whole(etl):
    declare(etl, raw=["one", "two"], one=["one", "end"], two=["raw", "end"], end=[])
    root = parsed(etl.svg())
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == ["raw", "one", "two", "end"]
    paths = [path.get("class") for path in root.iter(f"{SVG}path")]
    assert paths.count("link") == 1 + 4
    assert paths.count("link back") == 2
    assert root.findtext(f"{SVG}title") == "Pipeline etl"


def test_names_are_escaped(etl):
    etl.station("<&>")(lambda item: item)
    root = parsed(etl.svg())
    assert "<&>" in [text.text for text in root.iter(f"{SVG}text")]


def boxes(svg: str) -> list[tuple[float, ...]]:
    rects = parsed(svg).iter(f"{SVG}rect")
    return [tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height")) for rect in rects]


@pytest.mark.parametrize("width", [1, 2, 5, 9])
def test_no_station_hides_another(etl, width):
    names = [f"s{n}" for n in range(width * 4)]
    links = {name: names[(n // width + 1) * width :][: width + 2] for n, name in enumerate(names)}
    declare(etl, raw=names[:width], **links)
    found = boxes(etl.svg())
    assert len(found) == 1 + len(names)
    for (x, y, w, h), (a, b, c, d) in combinations(found, 2):
        assert x + w < a or a + c < x or y + h < b or b + d < y
    assert all(x > 0 and y > 0 for x, y, _, _ in found)


def test_a_link_over_a_column_has_a_place_there():
    layout = laid_out({"a": ["b", "c"], "b": ["c"], "c": []}, ["a"])
    assert [sorted(column) for column in layout.columns] == [[("a",)], [("a", "c", "1"), ("b",)], [("c",)]]
    rows = {layout.at[place][1] for place in layout.columns[1]}
    assert abs(max(rows) - min(rows)) == pytest.approx(1)
    assert layout.back == []
