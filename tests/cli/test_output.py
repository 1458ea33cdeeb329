import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from stanchion.core.text.durations import duration, written
from stanchion.core.times import iso
from stanchion.errors import InvalidInput
from stanchion.ops.cli.console import human
from stanchion.ops.cli.console.output import Column, fitted, plain, state_cell


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("90s", 90),
        ("5m", 300),
        ("5 min", 300),
        ("1h30m", 5_400),
        ("1w", 604_800),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text, "x") == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "0.5s"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (86_401, "1d1s"),
        (2_592_000, "30d"),
        (1e-6, "0.000001s"),
    ],
)
def test_durations_are_written_as_they_are_read(seconds: float, text: str) -> None:
    assert (written(seconds), duration(text, "x")) == (text, seconds)


@pytest.mark.parametrize("text", ["", " ", "soon", "5 parsecs", "-5", "1h30", "h", "1e3", "nan", "inf"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(InvalidInput, match="must be a duration"):
        duration(text, "x")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (3, "3 s"), (99, "99 s"), (120, "2 min"), (7_200, "2 h"), (172_800, "2 d"), (8_640_000, "100 d")],
)
def test_ages(seconds: float, text: str) -> None:
    assert human.age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.0004, "0.4 ms"), (0.012, "12 ms"), (3.21, "3.2 s"), (75, "75 s")]
)
def test_measured_times(seconds: float | None, text: str) -> None:
    assert human.duration(seconds) == text


def test_times_are_utc() -> None:
    assert iso(datetime(2031, 5, 1, 12, tzinfo=UTC)) == "2031-05-01T12:00:00.000000Z"
    assert iso(None) is None


def test_sparkline() -> None:
    assert human.sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert human.sparkline([0, 0]) == "▁▁"
    assert human.sparkline([]) == ""


COLUMNS = [
    Column("ID"),
    Column("NAME", shrinks=True),
    Column("TASK", shrinks=True, keeps_end=True),
    Column("N", right=True),
    Column("MORE", from_width=100),
]
ROWS = [["0123456789", "a name that is long", "shop.mail.tasks.welcome", "7", "more"], ["1", "b", "c", "1,000", ""]]


def drawn(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(fitted(COLUMNS, ROWS, width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_wide_terminal_shows_all() -> None:
    assert drawn(100)[1] == "0123456789  a name that is long  shop.mail.tasks.welcome      7  more"


def test_a_narrow_terminal_cuts_only_what_may_shrink() -> None:
    assert drawn(50) == [
        "ID          NAME            TASK                 N",
        "0123456789  a name that i…  ….tasks.welcome      7",
        "1           b               c                1,000",
    ]


def test_ids_are_shortened_before_errors() -> None:
    columns = [Column("ID", short=13), Column("STATE"), Column("ERROR", shrinks=True)]
    rows = [["01a21685-6752-70c7-8a40-e9b4f96f1113", "dead", "TimeoutError: no answer from psp-9.example"]]
    assert fitted(columns, rows, 90).plain.splitlines()[1] == "  ".join(rows[0])[:38] + (
        "dead   TimeoutError: no answer from psp-9.example"
    )
    assert fitted(columns, rows, 64).plain.splitlines()[1] == (
        "01a21685…1113  dead   TimeoutError: no answer from psp-9.example"
    )
    assert fitted(columns, rows, 40).plain.splitlines()[1] == "01a21685…1113  dead   TimeoutError: no …"


def test_plain_is_whole_and_aligned() -> None:
    assert plain(COLUMNS, ROWS).splitlines() == [
        "ID          NAME                 TASK                         N  MORE",
        "0123456789  a name that is long  shop.mail.tasks.welcome      7  more",
        "1           b                    c                        1,000",
    ]


def test_states_have_colours() -> None:
    assert state_cell("dead").style == "bold red"


def test_a_column_that_keeps_its_text_is_truncated_after_the_others() -> None:
    columns = [Column("QUEUE", shrinks=True), Column("ERROR", shrinks=True, keeps=20)]
    rows = [["a" * 30, "e" * 30]]
    for width, shown in (
        (62, (30, 30)),
        (56, (30, 24)),
        (52, (30, 20)),
        (40, (18, 20)),
        (32, (10, 20)),
        (22, (10, 10)),
    ):
        line = fitted(columns, rows, width).plain.splitlines()[1]
        assert tuple(map(len, line.split())) == shown, width
        assert len(line) == width


def test_a_column_for_wide_terminals_is_left_out_where_it_is_empty() -> None:
    columns = [Column("ID"), Column("DUE", from_width=50), Column("ERROR")]
    assert fitted(columns, [["1", "", ""], ["2", "", ""]], 80).plain.splitlines()[0].split() == ["ID", "ERROR"]
    assert fitted(columns, [["1", "", ""], ["2", "5 s", ""]], 80).plain.splitlines()[0].split() == [
        "ID",
        "DUE",
        "ERROR",
    ]
