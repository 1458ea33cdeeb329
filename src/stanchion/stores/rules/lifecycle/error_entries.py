"""The errors stored with a job: the last ten entries, as JSON.

An entry has `attempt`, `at` (seconds since 1970), `error`, `group` (the key of its group, see
`core.text.error_kinds`), and, where known, `type` (module and class of the exception), `traceback`, `worker`,
`started` (start of the attempt) and `until` (next due time), all without an extra write. A job is put off when the
worker's code does not know its work. The entry of a put-off job also has `times` and `since`: number of deferrals, and
time of the first. It is a single entry, and the last one. A later failure gets a separate entry; any other end of an
attempt removes it.

The oldest kept entry has `earlier`, the attempts before it whose entries were dropped: `started`, the start of the
first one, and `workers`, the workers of the last EARLIER_KEPT, oldest first, None for an unknown one.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stanchion.core.text.error_kinds import KEY, group_of
from stanchion.core.text.error_texts import MAX_TYPE, bounded, bounded_trace
from stanchion.stores.records.jobs import SECOND, JobRow

Entry = dict[str, Any]
"""An error of a job; its fields may be of any release, or of none."""

KEPT_ERRORS = 10

EARLIER_KEPT = 50
"""Maximum number of attempts before the kept entries whose workers are kept."""


class PutOff(NamedTuple):
    """How often a job was put off in a row so far, and since when, in seconds since 1970."""

    times: int = 0
    since: float | None = None


def entries_of(row: JobRow) -> list[Entry]:
    """Return the error entries of a job, the latest last; none where they can't be read, so that no claim fails."""
    if not row.errors:
        return []
    try:
        found = json.loads(row.errors)
    except (ValueError, TypeError, RecursionError):
        found = None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def with_error(
    row: JobRow,
    error: str,
    traceback: str | None,
    now: int,
    group: str | None = None,
    type: str | None = None,
    **fields: object,
) -> JobRow:
    """Return the job with one more error entry; `fields`: further fields of the entry.

    Texts are bounded here too, as not only this code writes outcomes: ten entries must fit into any store.
    """
    error, traceback = bounded(error), bounded_trace(traceback)
    if group is None or not KEY.fullmatch(group):
        group = group_of(error, row.task)
    entry: dict[str, object] = {"attempt": row.attempts, "at": now / SECOND, "error": error, "group": group, **fields}
    if type:
        entry["type"] = bounded(type)[:MAX_TYPE]
    if row.worker is not None:
        entry["worker"] = row.worker
    if row.started_at is not None:
        entry["started"] = row.started_at / SECOND
    if traceback:
        entry["traceback"] = traceback
    return with_entries(row, [*entries_of(row), entry])


def waiting_until(row: JobRow, run_at: int) -> JobRow:
    """Return the job with the due time that its last error entry records."""
    *before, last = entries_of(row)
    return with_entries(row, [*before, {**last, "until": run_at / SECOND}])._replace(run_at=run_at)


def put_off(row: JobRow, error: str, now: int) -> JobRow:
    """Return the job with one more put-off recorded."""
    before = put_off_so_far(row)
    since = now / SECOND if before.since is None else before.since
    last = {
        "attempt": row.attempts,
        "at": now / SECOND,
        "error": bounded(error),
        "times": before.times + 1,
        "since": since,
    }
    return with_entries(row, [*entries_of(not_put_off(row)), last])


def put_off_so_far(row: JobRow) -> PutOff:
    """Return how often the job was put off since its last attempt."""
    last = entries_of(row)[-1:]
    return PutOff(last[0]["times"], last[0]["since"]) if last and "times" in last[0] else PutOff()


def not_put_off(row: JobRow) -> JobRow:
    """Return the job without its put-off entry: some code knows its work."""
    return with_entries(row, entries_of(row)[:-1]) if put_off_so_far(row).times else row


def dumps(value: object) -> str:
    """Encode errors and headers, which the store itself writes."""
    return json.dumps(value, separators=(",", ":"))


def with_entries(row: JobRow, entries: list[Entry]) -> JobRow:
    """Return the job with the last KEPT_ERRORS of these entries."""
    while len(entries) > KEPT_ERRORS:
        dropped, oldest, *rest = entries
        entries = [{**oldest, **_earlier(dropped, oldest)}, *rest]
    return row._replace(errors=dumps(entries[-KEPT_ERRORS:]) if entries else None)


def _earlier(dropped: Entry, oldest: Entry) -> Entry:
    """Return the field of the entry that is the oldest from now on; none for the first attempt since a re-drive."""
    number, following = dropped.get("attempt"), oldest.get("attempt")
    if not (isinstance(number, int) and isinstance(following, int)) or number > following:
        return {}
    before = dropped.get("earlier")
    if number == following:  # it gave its attempt back
        return {} if before is None else {"earlier": before}
    if before is None:
        before = {"started": dropped.get("started") if number == 1 else None, "workers": []}
    unknown = [None] * min(following - number - 1, EARLIER_KEPT)
    workers = [*before["workers"], dropped.get("worker"), *unknown]
    return {"earlier": {**before, "workers": workers[-EARLIER_KEPT:]}}
