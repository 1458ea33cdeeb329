"""What operations answer."""

from __future__ import annotations

from typing import Final, get_args, get_type_hints

from stanchion.alerts.records import BandFigures, Level, Rule, Unit
from stanchion.core.service_levels import BANDS, BandName
from stanchion.jobs.job import WAIT_KINDS
from stanchion.ops.job_json import SHOWN
from stanchion.ops.web.api.operation import Schema
from stanchion.ops.web.api.schemas.kinds import (
    answer,
    anything,
    choice,
    decimal,
    flag,
    maybe,
    of,
    page_of,
    ref,
    several,
    table,
    text,
    time,
    whole,
)
from stanchion.ops.web.api.schemas.parts import PARTS
from stanchion.stores.fields.jobs import PUBLIC, Field, Kind
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.queues import Counts, Sizes

_ID: Final = text("The id of the job.")
_STATE: Final = choice(JobState)
_COUNT: Final = whole()


_KINDS: Final = {
    **dict.fromkeys((Kind.ID, Kind.NAME), text),
    Kind.MICROS: time,
    **dict.fromkeys((Kind.SMALL, Kind.INT), whole),
    Kind.REAL: decimal,
    Kind.CONTENT: anything,
}
_SPECIAL: Final[dict[str, Schema]] = {
    "state": _STATE,
    "priority": of("integer"),
    "lane": maybe(whole()),
    "headers": table(anything("Any JSON value.")),
    "limits": several(text()),
    "progress": decimal("The share done."),
    "trail": several(answer("A queue on its way.", queue=text(), entered_at=time(), attempts=maybe(whole()))),
    "errors": several(ref("JobError")),
}


def _schema(field: Field) -> Schema:
    """Return the schema of a field of a job."""
    if field.shown_as in _SPECIAL:
        return _SPECIAL[field.shown_as]
    schema = (
        whole(field.about, int(field.within[0]))
        if field.within and field.kind is Kind.INT
        else _KINDS[field.kind](field.about)
    )
    return schema if field.required or field.kind is Kind.CONTENT else maybe(schema)


_SUMMARY: Final = {field.shown_as: _schema(field) for field in PUBLIC if field.listed}

_JOB: Final[dict[str, Schema]] = {
    **{field.shown_as: _schema(field) for field in SHOWN},
    "partition": maybe(whole()),
    "checkpoint": anything("State that the last attempt left for the next one."),
    "unreadable": maybe(text("Why payload and result can't be shown, if they can't.")),
    "pickup_delay": maybe(decimal("Seconds from due to the start of the last attempt.")),
    "run_time": maybe(decimal("Seconds that the last attempt took.", None)),
    "cancelled": flag("It was cancelled, or is asked to stop."),
}

_JOBS: Final[dict[str, Schema]] = {
    "JobSummary": answer(
        "A job in a list, without its payload.", **_SUMMARY, error=maybe(text("The first line of its last error."))
    ),
    "JobError": answer(
        "A failed attempt.",
        attempt=maybe(whole()),
        at=maybe(time()),
        error=maybe(text()),
        type=maybe(text("Module and class of the exception, such as `requests.exceptions.ConnectionError`.")),
        traceback=maybe(text()),
        put_off=maybe(whole("How often it was put off, as no worker knew its task.")),
        since=maybe(time("Since when.")),
    ),
    "JobDetail": answer(
        "A job; values of keys such as password are hidden.",
        **_JOB,
        waits_for=maybe(text()),
        past_waits=several(ref("PastWait"), "Its last waits that are over, oldest first."),
        older_waits=flag("It has waited more often; only the last ten waits are kept."),
    ),
    "ChunkItems": answer(
        "Items of a chunk; values of keys such as password are hidden. The payload of a chunk's job has the first 20.",
        items=whole("The number of all items."),
        bytes=whole("Their size as they are stored."),
        columns=maybe(table(text(), "The types of Arrow of their fields; null: they are stored as JSON.")),
        shown=several(answer("An item.", item=whole("Its number."), value=anything("The item."))),
        next=maybe(whole("Send it as `from` to get the items after these; null: there are none.")),
    ),
    "PastWait": answer(
        "A wait that is over, or a pause of its queue while it was there.",
        kind=choice(WAIT_KINDS),
        name=text("Of the semaphore, order key, rate or queue; the id of the part of its flow."),
        since=time(),
        until=time(),
    ),
    "Reserved": answer(
        "Jobs that this caller holds now, none if none came in time.",
        jobs=several(ref("ReservedJob")),
        as_of=time(),
    ),
    "ReservedJob": answer(
        "A job that this caller holds, with nothing hidden.",
        **_JOB,
        token=text("The fencing token: send it with the outcome."),
        lease_until=maybe(time("The job goes back then, unless the lease was extended.")),
    ),
    "Pushed": answer("The jobs of a push, in its order.", jobs=several(ref("PushedJob"))),
    "PushedJob": answer("A job.", id=_ID, duplicate=flag("Its key was taken: this is the job that has it.")),
    "Settled": answer("What became of a job.", id=_ID, state=_STATE),
    "Held": answer("A job that is still held.", id=_ID, state=_STATE, cancelled=flag("It is asked to stop.")),
    "Effect": answer(
        "What an act on a job did, or would do.", id=_ID, state=maybe(_STATE), dry_run=flag(),
        jobs=whole("Jobs that it changes.")),
    "Replayed": answer("A copy.", id=maybe(_ID), origin=text(), dry_run=flag(), jobs=whole()),
}  # fmt: skip

_QUEUES: Final[dict[str, Schema]] = {
    "Sizes": answer("Live jobs by state.", **dict.fromkeys(Sizes._fields, _COUNT)),
    "Items": answer("Live items by state; a chunk has several.", **dict.fromkeys(Sizes._fields, _COUNT)),
    "Totals": answer("Events since the queue was made.", **dict.fromkeys(Counts._fields, _COUNT)),
    "Queue": answer(
        "A queue and its figures.",
        name=text(),
        verdict=text("Whether it keeps up, in words."),
        paused=flag(),
        size=ref("Sizes"),
        items=ref("Items"),
        totals=ref("Totals"),
        dead_letters=whole("Dead letters of other queues that lie there; they are in no other figure."),
        lag=maybe(decimal("Seconds that its oldest due job has waited.")),
        workers=whole("Live workers that take from it."),
        threads=whole("Jobs that these can run concurrently, for all their queues together."),
        last_5_min=maybe(ref("Times")),
        settings=ref("Settings"),
    ),
    "Times": answer(
        "How long the jobs that workers took within five minutes waited and ran, in seconds, within 10 %.",
        jobs=whole("Jobs that workers took."),
        attempts=whole("Attempts that ended."),
        pickup_p50=maybe(decimal("From due to start: the median.")),
        pickup_p95=maybe(decimal("The 95th percentile.")),
        run_p50=maybe(decimal("From start to end: the median.")),
        run_p95=maybe(decimal("The 95th percentile.")),
    ),
    "QueueDetail": answer(
        "A queue, its lanes, and who paused it.",
        queue=ref("Queue"),
        lanes=table(whole("Queued jobs, counted up to 1000."), "By lane; -1: jobs in no lane."),
        tenants=several(
            answer("A tenant.", name=maybe(text("null: all others.")), jobs=_COUNT),
            "The tenants with most ready jobs among the 5,000 due first.",
        ),
        partitions=several(text(), "Its physical queues, if it is partitioned."),
        schema=maybe(
            answer(
                "What its payloads are checked against.",
                version=whole("Grows with each change."),
                ddl=text(),
                fields=several(answer("A field.", name=text(), type=text("In DDL."), nullable=flag())),
            )
        ),
        pause=maybe(answer("Who paused it.", who=text(), at=time(), note=text())),
        as_of=time(),
    ),
    "Settings": of("object", "The settings of a queue; see SettingsBody."),
    "QueueEffect": answer(
        "What an act on a queue did, or would do.", dry_run=flag(), jobs=whole("Ready jobs in the queue."),
        queue=text(), settings=ref("Settings")),
}  # fmt: skip

_BAND: Final = choice(band.name for band in BANDS)
_OF_BAND: Final = {BandName: _BAND, int: _COUNT, float: decimal()}
"""The schemas of figures, by their types."""

_WATCH: Final[dict[str, Schema]] = {
    "Alert": answer(
        "Something that needs a person.",
        key=text("What stays the same while it lasts."),
        level=choice(get_args(Level)),
        rule=choice(get_args(Rule)),
        kind=text(),
        subject=text(),
        summary=text("A sentence."),
        value=decimal("", None),
        limit=decimal("", None),
        unit=choice(get_args(Unit)),
        percent=decimal("", None),
        band=maybe(_BAND),
        since=maybe(time()),
        evidence=several(text()),
        actions=several(answer("Something safe to do.", text=text(), command=maybe(text()))),
        merged=several(text()),
        runbook=text(),
        error=maybe(text("The key of the most frequent group of errors that caused it.")),
        on_it=maybe(answer("Who looks after it.", who=text(), at=time())),
    ),
    "BandFigures": answer(
        "The live jobs of a band.",
        count=_COUNT,
        **{name: _OF_BAND[kind] for name, kind in get_type_hints(BandFigures).items()},
    ),
    "QueueFigures": answer(
        "The live jobs of a queue.",
        queue=text(),
        paused=flag(),
        size=ref("Sizes"),
        items=ref("Items"),
        totals=ref("Totals"),
        dead_letters=whole("Dead letters of other queues that lie there; they are in no other figure."),
        alert_percent=decimal(),
        bands=several(ref("BandFigures")),
    ),
    "Monitor": answer(
        "Figures by band and queue.",
        at=maybe(time()),
        exact=flag("The counts by band are of all live jobs; else of the oldest ones."),
        bands=several(ref("BandFigures")),
        queues=several(ref("QueueFigures")),
        as_of=time(),
    ),
    "Sample": answer(
        "Figures at a time; counts are since the queues were made.",
        at=time(),
        ready=_COUNT,
        lag=decimal("Seconds that the oldest ready job has waited."),
        **dict.fromkeys(("pushed", "done", "failed", "dead"), _COUNT),
    ),
    "Report": answer(
        "A report of what finished. It is made in the background: ask again until `made_at` is there.",
        made_at=maybe(time("When it was made; null: it is being made.")),
        counted=maybe(whole("Jobs counted so far for the next one; null: none is being made.")),
        sentence=maybe(text("The verdict.")),
        facts=several(text()),
        figures=maybe(table(anything("A figure."))),
        error=maybe(text("Why it could not be made.")),
        as_of=time(),
    ),
    "Owner": answer("The person handling an alert.", key=text(), who=text(), at=time()),
    "AuditEntry": answer(
        "Who did what.", at=time(), who=text(), act=text(), subject=text(), number=whole("Jobs."), note=text(),
        address=text()),
}  # fmt: skip

PAGES: Final = {
    "JobPage": ("JobSummary", "Jobs, newest first."),
    "QueuePage": ("Queue", "Queues, by name."),
    "ErrorPage": ("ErrorGroup", "Groups of errors, the largest first."),
    "RatePage": ("Rate", "Declared rates, by name."),
    "SemaphorePage": ("Semaphore", "Semaphores, by name."),
    "WorkerPage": ("Worker", "Workers, by id."),
    "ManagerPage": ("Manager", "Managers, by address."),
    "SchedulePage": ("Schedule", "Schedules, by name."),
    "FlowPage": ("FlowSeen", "Flows, newest first."),
    "StreamPage": ("Stream", "Streams, by name."),
    "PipelinePage": ("PipelineName", "Pipelines, by name."),
    "AlertPage": ("Alert", "Firing alerts, the most urgent first."),
    "SamplePage": ("Sample", "Figures, oldest first."),
    "AuditPage": ("AuditEntry", "Recorded actions, newest first."),
    "BulkPage": ("BulkWork", "Bulk work, newest first."),
    "ProblemPage": ("ProblemKind", "Kinds of problems, by code."),
}

_BESIDE: Final[dict[str, dict[str, Schema]]] = {
    "JobPage": {"skipped_chunks": whole("The chunks whose items a search for text has passed over.")}
}

ANSWERS: Final[dict[str, Schema]] = {
    **_JOBS,
    **_QUEUES,
    **_WATCH,
    **PARTS,
    **{name: page_of(item, about, **_BESIDE.get(name, {})) for name, (item, about) in PAGES.items()},
}
