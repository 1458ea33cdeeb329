"""Beginning and stopping bulk work."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from stanchion.context import context_of
from stanchion.core.checks import checked_id
from stanchion.errors import InvalidInput
from stanchion.jobs.lookup import refuse_items
from stanchion.ops.reads.errors import READ
from stanchion.ops.reads.filters import Act, JobFilter
from stanchion.ops.reads.lists import count, page_of
from stanchion.ops.web.bulk_work.bulk import MOST, BulkWork
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import plural

CHOSEN_MAX: Final = 500
"""Jobs that may be chosen one by one."""

RATE_MAX: Final = 10_000
"""Jobs a second."""


def chosen(visit: Visit, ids: Sequence[str]) -> tuple[str, ...]:
    """Return jobs chosen one by one, each once. Raises InvalidInput."""
    if len(ids) > CHOSEN_MAX:
        raise InvalidInput(f"at most {CHOSEN_MAX} jobs are chosen one by one; use a filter")
    wanted = tuple(dict.fromkeys(checked_id(one) for one in ids))
    refuse_items(context_of(visit.site.app), wanted)
    return wanted


def matching(visit: Visit, wanted: JobFilter) -> int | None:
    """Count the jobs that match, up to a bound; None where that would take too long."""
    query = wanted.query(visit.now)
    if not wanted.error:
        return count(visit.store, query)
    read = page_of(context_of(visit.site.app), visit.store, query, visit.now, None, READ)
    return None if read.next else sum(job.error_group == wanted.error for job in read.jobs)


def begin(visit: Visit, act: Act, where: str, ids: tuple[str, ...], total: int, rate: int) -> BulkWork:
    """Store bulk work; this process begins with it. `where`: its filter, empty for chosen `ids`."""
    works = visit.site.bulk
    works.delete_old(visit.now)
    if sum(work.state == "running" for work, _ in works.all()) >= MOST:
        raise InvalidInput(f"{MOST} works are under way: wait for one of them, or stop one")
    work = BulkWork(secrets.token_hex(8), act, where, ids, visit.session.caller.name, visit.now, total, float(rate))
    visit.audit(
        act, JobFilter.of_text(where).words if where else f"{plural(len(ids), 'chosen job')}: {', '.join(ids)}", total
    )
    works.write(work, 0)
    visit.site.runner.nudge()
    return work


def stop(visit: Visit, work: BulkWork) -> bool:
    """Stop bulk work after its round; False if it has ended."""
    words = JobFilter.of_text(work.where).words if work.where else "chosen jobs"
    visit.audit(f"stop {work.act}", words, work.to_go)
    return visit.site.bulk.stop(work.id, visit.now)
