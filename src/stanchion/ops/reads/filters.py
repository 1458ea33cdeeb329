"""The filters of lists of jobs and of the audit log: the query of a URL, and the query of the store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode

from stanchion.core.checks import aware, checked_id, checked_name, refuse_unknown
from stanchion.core.service_levels import BANDS
from stanchion.core.times import micros, moment
from stanchion.errors import InvalidInput
from stanchion.jobs.search import Search, checked_text, query_of
from stanchion.ops.audit import Wanted
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.query import Condition, Query

Act = Literal["retry", "cancel", "replay"]
"""What bulk work may do."""

SPANS: Final = {"1h": 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
"""Spans of time that a filter may name, in seconds."""

TEXT_SPAN: Final = "24h"
"""The span of a search for text that names none: it must read each job."""

RETRIED: Final = (JobState.DEAD, JobState.CANCELLED, JobState.SCHEDULED)
CANCELLED: Final = tuple(state for state in JobState if not state.final)
REPLAYED: Final = tuple(state for state in JobState if state.final)
ACTS: Final[dict[Act, tuple[JobState, ...]]] = {"retry": RETRIED, "cancel": CANCELLED, "replay": REPLAYED}
"""The states that each act of bulk work changes."""

_KEY: Final = re.compile(r"[0-9a-f]{8}")
_NAMES: Final = ("state", "queue", "task", "tenant", "band", "since", "until", "flow", "error", "text")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Conditions on jobs; empty ones hold for all. `since`, `until`: a span before now, or a time in ISO 8601."""

    states: tuple[JobState, ...] = ()
    queue: str = ""
    task: str = ""
    tenant: str = ""
    band: str = ""
    since: str = ""
    until: str = ""
    flow: str = ""
    error: str = ""
    """The key of a group of errors; the store does not know it, see `Job.error_group`."""
    text: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str], states: Sequence[str] = ()) -> Self:
        """Read the values of a URL. Raises InvalidInput."""
        known = {name: given.get(name, "").strip() for name in _NAMES[1:]}
        for name in ("queue", "task", "tenant"):
            if known[name]:
                checked_name(known[name], name)
        if known["error"] and not _KEY.fullmatch(known["error"]):
            raise InvalidInput("an error is named by 8 hexadecimal digits; see the page of errors")
        if known["flow"]:
            checked_id(known["flow"], "the id of a flow")
        if known["band"]:
            refuse_unknown([known["band"]], [band.name for band in BANDS], "band")
        for name in ("since", "until"):
            if known[name]:
                time_of(known[name], 0)
        try:
            chosen = tuple(dict.fromkeys(JobState(state) for state in states if state))
        except ValueError:
            raise InvalidInput(f"a state is one of {', '.join(JobState)}") from None
        checked_text(known["text"])
        if known["text"] and not known["since"]:
            known["since"] = TEXT_SPAN
        return cls(states=chosen, **known)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read the query of a URL, as `where` writes it."""
        pairs = parse_qsl(text)
        return cls.of(dict(pairs), [value for name, value in pairs if name == "state"])

    @property
    def where(self) -> str:
        """The filter as the query of a URL, without a question mark."""
        pairs = [("state", state.value) for state in self.states]
        pairs += [(name, value) for name in _NAMES[1:] if (value := getattr(self, name))]
        return urlencode(pairs)

    @property
    def words(self) -> str:
        """The filter in words, for people: `dead, queue payments, since 24h`."""
        named = [f"{name} {value}" for name in _NAMES[1:] if (value := getattr(self, name))]
        return ", ".join([" or ".join(self.states) or "any state", *named])

    def with_states(self, *states: JobState) -> Self:
        """Return the filter for other states."""
        return replace(self, states=states)

    def for_act(self, act: Act) -> Self:
        """Return the filter of the jobs that an act may change. Raises InvalidInput if it can change none."""
        fitting = ACTS[act]
        if not self.states:
            return self.with_states(*(fitting[:1] if act == "retry" else fitting))
        chosen = tuple(state for state in self.states if state in fitting)
        if not chosen:
            raise InvalidInput(f"{act} is for jobs that are {', '.join(fitting)}")
        return self.with_states(*chosen)

    def query(self, now: int) -> Query:
        """Return the query of the store, newest jobs first; spans end `now`, and jobs enqueued later are left out."""
        search = Search(
            queue=self.queue or None,
            state=self.states or None,
            task=self.task or None,
            tenant=self.tenant or None,
            since=time_of(self.since, now) if self.since else None,
            until=time_of(self.until, now) if self.until else None,
            flow=self.flow or None,
            text=self.text or None,
        )
        band = _priorities(self.band) if self.band else []
        return query_of(search).also(*band, Condition("enqueued_at", "<=", now))


def _priorities(name: str) -> list[Condition]:
    """Return the conditions of a band: its priorities end where the band above begins."""
    place = next(place for place, band in enumerate(BANDS) if band.name == name)
    found = [Condition("priority", ">=", BANDS[place].least)]
    return [*found, Condition("priority", "<", BANDS[place - 1].least)] if place else found


def time_of(text: str, now: int) -> datetime:
    """Return the time of a span before now, or of a text in ISO 8601, in UTC without a zone. Raises InvalidInput."""
    if text in SPANS:
        return moment(now - SPANS[text] * SECOND)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"a time is a span, such as 24h, or ISO 8601, not {text[:40]!r}") from None
    return aware(found if found.tzinfo else found.replace(tzinfo=UTC), "the time")


class AuditFilter(NamedTuple):
    """Conditions as they are given; empty ones hold for all. `since`, `until`: see `JobFilter`."""

    who: str = ""
    act: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read the values of a URL."""
        return cls(*(given.get(name, "").strip() for name in cls._fields))

    def wanted(self, now: int) -> Wanted:
        """Return the entries that are meant. Raises InvalidInput for a wrong time."""
        since, until = (micros(time_of(text, now)) if text else 0 for text in (self.since, self.until))
        return Wanted(self.who, self.act, since, until)
