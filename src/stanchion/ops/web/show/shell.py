"""The frame of each page: navigation, search, user, theme, and its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from stanchion.core.text.durations import spelled
from stanchion.core.times import moment
from stanchion.ops import words
from stanchion.ops.web.access.callers import Caller
from stanchion.ops.web.access.receipts import Receipt
from stanchion.stores.records.jobs import JobState


class Link(NamedTuple):
    """An entry of the navigation."""

    path: str
    text: str


NAVIGATION: Final = (
    ("Now", (Link("/", "Overview"), Link("/errors", "Errors"), Link("/jobs", "Jobs"))),
    (
        "Work",
        (
            Link("/queues", "Queues"),
            Link("/flows", "Flows"),
            Link("/pipelines", "Pipelines"),
            Link("/schedules", "Schedules"),
        ),
    ),
    (
        "Machines",
        (
            Link("/workers", "Workers"),
            Link("/managers", "Managers"),
            Link("/streams", "Streams"),
            Link("/semaphores", "Semaphores"),
        ),
    ),
    ("Record", (Link("/report", "Report"), Link("/audit", "Audit"))),
)
TABS: Final = (
    *(Link("/", "Overview"), Link("/errors", "Errors"), Link("/jobs", "Jobs"), Link("/queues", "Queues")),
    Link("/more", "More"),
)

THEMES: Final = ("auto", "light", "dark")
THEME_COOKIE: Final = "stanchion-theme"
KEYS_COOKIE: Final = "stanchion-keys"

MARKS: Final = frozenset({*JobState, "needs", "risk"})


@dataclass(frozen=True)
class Shell:
    """Content of the frame of a page; `page` in the templates. `now`: by the store's clock, in microseconds.

    `events`: address of the events that report the page as stale. `outer`: the template around the shell. `missed`:
    parts that were not read within `seconds`. `needs`: number of alerts by page of the navigation. `receipt`: of the
    action before this page.
    """

    title: str
    path: str
    search: str
    now: int | None
    nonce: str
    csrf: str
    caller: Caller
    logged_in: bool
    store: str
    theme: str
    keys: bool
    events: str = ""
    outer: str = "frame.html"
    missed: tuple[str, ...] = ()
    seconds: float = 0.0
    needs: Mapping[str, int] = field(default_factory=dict)
    receipt: Receipt | None = None
    navigation = NAVIGATION
    tabs = TABS

    @property
    def operates(self) -> bool:
        """Whether actions are shown."""
        return self.caller.operates

    @property
    def here(self) -> str:
        """The address of this page, for returning to it."""
        return f"{self.path}?{self.search}" if self.search else self.path

    @property
    def next_theme(self) -> str:
        """The theme that the button chooses."""
        return THEMES[(THEMES.index(self.theme) + 1) % len(THEMES)]

    @property
    def time(self) -> str:
        """The time of the page, by the store's clock."""
        return f"{moment(self.now or 0):%H:%M:%S} UTC"

    def current(self, path: str) -> bool:
        """Return whether a link of the navigation leads to where this page is."""
        return self.path == path or (path != "/" and self.path.startswith(f"{path}/"))

    def in_more(self) -> bool:
        """Return whether this page is reached by the last tab of a phone."""
        return not any(self.current(link.path) for link in self.tabs[:-1])

    def when(self, stored: int | datetime | None) -> Markup:
        """Return a time as people say it, with the exact one as its title; a dash for None."""
        return self._time(stored, words.near)

    def at(self, stored: int | datetime | None) -> Markup:
        """Return a time of day, with the exact one as its title; a dash for None."""
        return self._time(stored, words.clock)

    def _time(self, stored: int | datetime | None, form: Callable[[datetime, datetime], str]) -> Markup:
        if stored is None:
            return Markup("–")
        at = words.moment_of(stored)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            at.isoformat(), words.exact(at), form(at, moment(self.now or 0))
        )

    def age(self, stored: int) -> str:
        """Return how long ago a stored time is."""
        return spelled(words.seconds_since(stored, self.now or 0))

    def mark(self, name: str, classes: str = "", label: str = "") -> Markup:
        """Return the mark of a state; with a label where no word is next to it."""
        if name not in MARKS:
            raise ValueError(f"there is no mark {name!r}")
        told = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
        return Markup('<svg class="mark c-{} {}" {}><use href="#m-{}"/></svg>').format(name, classes, told, name)

    def state(self, name: str) -> Markup:
        """Return a state as a mark and a word."""
        return Markup('<span class="state c-{}">{}{}</span>').format(name, self.mark(name), escape(name))
