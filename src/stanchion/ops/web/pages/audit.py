"""The audit log: a page, and files to be kept elsewhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from stanchion.core.times import iso, moment
from stanchion.errors import InvalidInput
from stanchion.ops.audit import KEPT, WALKED, Entry
from stanchion.ops.reads.filters import SPANS, AuditFilter
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import SPAN_NAMES, plural

SHOWN: Final = 100

FIELDS: Final = ("at", "who", "act", "subject", "number", "note", "address")

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def log(visit: Visit) -> Response:
    """Show who did what, newest first."""
    before, given = visit.asked("before"), _given(visit)
    wanted = given.wanted(visit.now)
    if before and not (before.isdecimal() and len(before) < 9):
        raise InvalidInput("before is the number of a part of the log")
    filtered = any(wanted)
    found, older = visit.site.audit.newest(WALKED if filtered else SHOWN, int(before) if before else None)
    entries = [one for one in found if one.at > visit.now - KEPT and wanted.fits(one)]
    people = len({one.who for one in entries})
    headline = f"{plural(len(entries), 'act')} by {plural(people, 'person', 'people')}" if entries else "No act so far"
    if filtered:
        headline = f"{plural(len(entries), 'act')} of the {plural(len(found), 'newest one', 'newest ones')}"
    return visit.page(
        "audit.html",
        "Audit",
        headline=headline,
        entries=entries,
        older=older,
        given=given,
        filtered=filtered,
        spans=[(name, SPAN_NAMES[name]) for name in SPANS],
    )


def as_csv(visit: Visit) -> Response:
    """Send the log as a table. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    rows = ([_harmless(str(value)) for value in _row(entry).values()] for entry in _entries(visit))
    return _file((_line(row) for row in _with_head(rows)), "text/csv", "audit.csv")


def as_lines(visit: Visit) -> Response:
    """Send the log as JSON, one entry in each line."""
    lines = (f"{json.dumps(_row(entry), ensure_ascii=False)}\n" for entry in _entries(visit))
    return _file(lines, "application/jsonl", "audit.jsonl")


def _given(visit: Visit) -> AuditFilter:
    return AuditFilter.of(visit.request.query_params)


def _entries(visit: Visit) -> Iterator[Entry]:
    return visit.site.audit.walk(visit.now, _given(visit).wanted(visit.now))


def _row(entry: Entry) -> dict[str, object]:
    return {**{name: getattr(entry, name) for name in FIELDS}, "at": iso(moment(entry.at))}


def _with_head(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield list(FIELDS)
    yield from rows


def _line(row: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(row)
    return text.getvalue()


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _file(lines: Iterator[str], kind: str, name: str) -> Response:
    disposition = f'attachment; filename="{name}"'
    return StreamingResponse(lines, headers={"Content-Disposition": disposition}, media_type=kind)
