"""The page of a report, and what its figures are made of."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from stanchion.core.service_levels import BANDS
from stanchion.core.text.durations import UNKNOWN
from stanchion.reporting.figures import MOST_STEPS, jain, power_law, step_for, steps
from stanchion.reporting.figures import errors as shared_errors
from stanchion.reporting.page import page_of
from stanchion.reporting.scales import from_zero, log_counts, log_lengths, moments, number, percent, rate
from tests.spark.report import samples
from tests.spark.report.samples import START

NOW = datetime(2027, 1, 1, tzinfo=UTC)


class Checked(HTMLParser):
    """Sees that elements are closed in their order; collects texts and attributes."""

    VOID = frozenset({"meta", "line", "rect", "circle", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def checked(figures: dict[str, Any], title: str = "Report") -> Checked:
    page = Checked()
    page.feed(page_of(figures, title, "sqlite:///jobs.db", NOW))
    assert page.open == []
    return page


@pytest.mark.parametrize("figures", [samples.year(), samples.one(), samples.none()], ids=["year", "one", "none"])
def test_it_is_sound_and_loads_nothing(figures: dict[str, Any]) -> None:
    page = checked(figures)
    links = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(link is not None and ("id", link.removeprefix("#")) in page.attributes for link in links)
    text = page_of(figures, "Report", "", NOW)
    assert not re.search(r"url\(|@import|<script|<link|https?://|\bnan\b|None", text)
    for name, value in page.attributes:
        if name in ("x", "y", "cx", "cy", "x1", "x2", "y1", "y2", "width", "height") and value:
            assert re.fullmatch(r"\d+(\.\d+)?|device-width.*", value), (name, value)


def test_what_comes_from_jobs_is_escaped() -> None:
    figures = samples.one()
    evil = '<script>alert("x")</script>'
    figures["tasks"]["rows"][0] |= {"task": evil, "queue": evil}
    figures["errors"] = shared_errors([{**samples.year()["errors"]["rows"][1], "error": evil, "task": evil}])
    figures["tenants"] = samples.year()["tenants"] | {"count": 1}
    figures["tenants"]["rows"] = [figures["tenants"]["rows"][0] | {"tenant": evil}]
    assert "<script" not in page_of(figures, evil, evil, NOW)
    assert evil in checked(figures, evil).texts


def test_each_section_is_there_where_there_is_something_to_show() -> None:
    whole = {value for name, value in checked(samples.year()).attributes if name == "id"}
    assert whole == {"throughput", "pickup", "levels", "tasks", "attempts", "errors", "tenants", "stations"}
    one = {value for name, value in checked(samples.one()).attributes if name == "id"}
    assert one == {"throughput", "pickup", "levels", "tasks", "attempts"}
    assert "Nothing to report" in checked(samples.none()).texts


def test_numbers_are_those_of_the_figures() -> None:
    texts = checked(samples.year()).texts
    assert any("0.994 for the mean pick-up delay" in text for text in texts)
    assert any("r^-1." in text for text in texts)


def test_the_power_law_is_shown_only_where_it_fits() -> None:
    figures = samples.year()
    assert figures["errors"]["law"]["r_squared"] > 0.9
    figures["errors"]["law"]["r_squared"] = 0.9
    texts = checked(figures).texts
    assert not any("power law" in text for text in texts)


def test_dead_jobs_come_with_the_command_that_runs_them_again() -> None:
    texts = checked(samples.year()).texts
    assert "stanchion retry --queue mail --task mail.welcome --error 00000001" in texts
    assert "job-1-0 job-1-1 job-1-2 job-1-3 job-1-4" in texts
    assert not any("--error 00000000" in text for text in texts)


def test_wide_tables_say_that_they_scroll() -> None:
    page = page_of(samples.year(), "Report", "", NOW)
    tables = [part.partition("</thead>")[0].count("<th>") for part in page.split("<table>")[1:]]
    assert page.count("The table scrolls sideways") == sum(columns > 4 for columns in tables) > 0


def test_a_colour_has_one_meaning() -> None:
    page = page_of(samples.year(), "Report", "", NOW)
    colours = dict(re.findall(r"rect\.(\w+), circle\.\w+ { fill: var\(--(\w+)\)", page))
    used = [colours[kind] for kind in ("done", "dead", "cancelled", "s0", "band0", "band1", "band2", "band3")]
    assert len(set(used)) == len(used)
    values = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", page.partition("@media")[0]))
    assert len({values[name] for name in used}) == len(used)


@pytest.mark.parametrize(
    ("first", "seconds", "shown"),
    [
        (START + 7, 50, ["00:00:10", "00:00:20", "00:00:30", "00:00:40", "00:00:50"]),
        (START + 60, 5 * 3600, ["01:00", "02:00", "03:00", "04:00", "05:00"]),
        (START - 3600, 30 * 3600, ["1 Jan", "06:00", "12:00", "18:00", "2 Jan"]),
        (START + 100, 364 * 86_400, ["Mar 2026", "May 2026", "Jul 2026", "Sep 2026", "Nov 2026"]),
    ],
)
def test_ticks_are_at_round_times(first: float, seconds: float, shown: list[str]) -> None:
    assert [text for _, text in moments(first, first + seconds, 6).ticks] == shown


def test_bands() -> None:
    names = {60: "interactive", 20: "user_visible", -20: "eventual", -100: "reporting"}
    assert {band.least: band.name for band in BANDS} == names
    assert [(band.max_age, band.max_run, band.max_attempts) for band in BANDS] == [
        (60, 30, 3),
        (180, 90, 5),
        (5400, 300, 8),
        (14_400, 600, 8),
    ]


@pytest.mark.parametrize("seconds", [0, 0.5, 59, 119, 3600, 86_400, 40 * 86_400, 366 * 86_400, 20 * 366 * 86_400])
def test_time_is_cut_into_few_steps(seconds: float) -> None:
    step = step_for(seconds)
    moments = steps(1e9 + 0.3, 1e9 + 0.3 + seconds, step)
    assert 1 <= len(moments) <= MOST_STEPS + 1
    assert moments[0] <= 1e9 + 0.3
    assert 1e9 + 0.3 + seconds < moments[-1] + step


def test_fairness() -> None:
    assert jain(12, 3 * 16, 3) == 1
    assert jain(9, 81, 3) == pytest.approx(1 / 3)
    assert jain(0, 0, 3) is None
    assert jain(0, 0, 0) is None


def test_power_law() -> None:
    exact = power_law([round(1e6 / rank**1.5) for rank in range(1, 40)])
    assert exact is not None
    assert exact["exponent"] == pytest.approx(1.5, abs=0.01)
    assert exact["top"] == pytest.approx(1e6, rel=0.01)
    assert exact["r_squared"] == pytest.approx(1, abs=0.001)
    assert power_law([64, 32, 16, 8, 4, 2, 1]) is None
    assert power_law([5] * 8) is None


@pytest.mark.parametrize("highest", [0, 0.2, 1, 3, 7, 10, 99, 100, 101, 12_345, 9_999_999])
def test_an_axis_from_zero_holds_its_values(highest: float) -> None:
    axis = from_zero(highest, number)
    assert axis.high >= highest
    assert axis.ticks[0][0] == 0
    assert len({text for _, text in axis.ticks}) == len(axis.ticks) <= 6
    assert [axis(value) for value in (0, axis.high)] == [0, 1]


@pytest.mark.parametrize("values", [[], [0.0], [1.0], [0.003, 70_000.0], [5e-9, 1e10]])
def test_a_logarithmic_axis_holds_its_values(values: list[float]) -> None:
    axis = log_lengths(values)
    assert all(0 <= axis(value) <= 1.001 for value in values if value < axis.high)
    assert len(axis.ticks) >= 2
    assert log_counts(1)(1) == 0


def test_an_axis_of_a_single_moment() -> None:
    assert [text for _, text in moments(0, 0, 4).ticks] == ["00:00:00"]


def test_words() -> None:
    assert [number(value) for value in (0, 7, 999, 9999, 12_345, 1_234_567)] == [
        "0",
        "7",
        "999",
        "9,999",
        "12.3k",
        "1.23M",
    ]
    assert [percent(value) for value in (None, 0, 1, 0.5, 0.9996, 0.999999999)] == [
        *(UNKNOWN, "0%", "100%", "50.0%", "99.96%", "> 99.999%")
    ]
    assert [rate(value) for value in (None, 12, 0.5, 0.001, 1e-5)] == [UNKNOWN, "12/s", "30/min", "3.6/h", "0.864/d"]
