"""Claimed jobs that must not be delivered: expired ones are cancelled, those with values that can't be read are dead.

Without its limits a job would run concurrently with jobs that exclude it. Values that came through Stanchion were
checked, but a program may have written to the database directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from stanchion.stores.fields.jobs import CHOSEN, KINDS, Kind
from stanchion.stores.records.claims import Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon, Bury
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.expiry import EXPIRED, is_too_late


class NotUtf8(str):
    """A stored text that is not UTF-8, with replacement characters for the bytes that can't be decoded."""

    __slots__ = ()


class OfWrongTypes(str):
    """The payload, or the value found in its place, of a job with values of wrong types in some fields."""

    def __new__(cls, payload: str, fields: Iterable[str]) -> OfWrongTypes:
        """Take the payload of a job, and the names of the fields."""
        self = super().__new__(cls, payload)
        self.fields = tuple(fields)
        return self

    fields: tuple[str, ...]


TEXTS = ("payload", *(name for name in CHOSEN if name != "queue" and KINDS[name] in (Kind.NAME, Kind.JSON)))
"""Texts of a job that a claim returns, and that other programs set; fields with a fixed form are left out."""

_texts_of = attrgetter(*TEXTS)


def deliverable(claimed: Claimed) -> tuple[Claimed, list[Bury | Abandon]]:
    """Split claimed jobs into ones that may run, and outcomes of the others; there may then be more to claim."""
    ends = {
        row.id: end
        for row in claimed.rows
        if (end := (_burial if row.expires is None else _end)(row)) is not None  # few expire: no more calls for others
    }
    if not ends:
        return claimed, []
    kept = [row for row in claimed.rows if row.id not in ends]
    return claimed._replace(rows=kept, retry_in=0.0), list(ends.values())


def _end(row: JobRow) -> Bury | Abandon | None:
    """Return the outcome of a job that must not run; None: it may."""
    return Abandon(row.lease, EXPIRED) if is_too_late(row) else _burial(row)


def _burial(row: JobRow) -> Bury | None:
    """Return the outcome of a job that can't be read; None: it can."""
    fault = misfit(row)
    if fault is None and row.limits is not None and (unread := limits_in(row.limits).fault):
        fault = f"the job has limits that can't be read, and can't run without: {unread}"
    return None if fault is None else Bury(row.lease, fault)


def misfit(row: JobRow) -> str | None:
    """Return which values of a job have wrong types, or are not UTF-8, as a reason not to use them; None: none."""
    texts = _texts_of(row)
    if isinstance(row.payload, OfWrongTypes):
        return (
            f"the job has values of wrong types, in {' and '.join(row.payload.fields)}: push it again by Stanchion, or "
            f"as the page on other languages says"
        )
    if NotUtf8 not in map(type, texts):
        return None
    names = [name for name, value in zip(TEXTS, texts, strict=True) if isinstance(value, NotUtf8)]
    return f"the job has text that is not UTF-8, in {' and '.join(names)}: push it again by a client that sends UTF-8"
