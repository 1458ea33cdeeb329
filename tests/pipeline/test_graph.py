"""Stations drawn, as text, as a picture, and in the languages of Mermaid and Graphviz."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.core.graph.layout import laid_out
from stanchion.core.graph.model import Graph, GraphNode
from stanchion.errors import InvalidInput

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


def laid(links: dict[str, list[str]], *entries: str):
    return laid_out(Graph("etl", {name: GraphNode(name) for name in links}, links, entries))


def test_a_link_over_a_column_has_a_place_there():
    layout = laid({"a": ["b", "c"], "b": ["c"], "c": []}, "a")
    assert [sorted(column) for column in layout.columns] == [[("a",)], [("a", "c", "1"), ("b",)], [("c",)]]
    rows = {layout.at[place][1] for place in layout.columns[1]}
    assert abs(max(rows) - min(rows)) == pytest.approx(1)
    assert layout.back == []


def test_a_long_row_is_laid_out():
    names = [f"n{number}" for number in range(3000)]
    layout = laid({name: [after] for name, after in zip(names, [*names[1:], names[0]], strict=True)}, "n0")
    assert layout.back == [("n2999", "n0")]
    assert layout.columns == [[(name,)] for name in names]


def test_mermaid(etl):
    declare(etl, raw=["one", "end"], one=["raw", "end"])
    etl.station("end", max_rate=5)(lambda item: item)
    assert etl.graph("mermaid").splitlines() == [
        "---",
        'title: "Pipeline etl"',
        "---",
        "flowchart LR",
        '    n0["raw"]',
        '    n1["one"]',
        '    n2["end<br/><small>5/s, end</small>"]',
        "    n0 --> n1",
        "    n0 --> n2",
        "    n1 -.-> n0",
        "    n1 --> n2",
        "    classDef endKind fill:#eef7f0,stroke:#3f9a5f,color:#1c2430",
        "    class n2 endKind",
    ]


def test_dot(etl):
    declare(etl, raw=["one", "end"], one=["raw", "end"], end=[])
    assert etl.graph("dot").splitlines() == [
        'digraph "Pipeline etl" {',
        "    rankdir=LR",
        '    node [shape=box style="rounded,filled" fillcolor=white color="#8a97a8"]',
        '    edge [color="#8a97a8"]',
        '    "raw" [label="raw"]',
        '    "one" [label="one"]',
        '    "end" [label="end\\nend" fillcolor="#eef7f0" color="#3f9a5f"]',
        '    "raw" -> "one"',
        '    "raw" -> "end"',
        '    "one" -> "raw" [style=dashed constraint=false]',
        '    "one" -> "end"',
        "}",
    ]


def test_names_are_escaped_in_both_languages(etl):
    etl.station('<"&\\>')(lambda item: item)
    assert '    n0["#60;#34;#38;#92;#62;<br/><small>end</small>"]' in etl.graph("mermaid").splitlines()
    assert '[label="<\\"&\\\\>\\nend"' in etl.graph("dot")


def test_an_unknown_form_is_refused(etl):
    declare(etl, raw=[])
    with pytest.raises(InvalidInput, match="text, svg, mermaid, dot"):
        etl.graph("png")
