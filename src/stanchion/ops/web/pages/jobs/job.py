"""One job: its state in a sentence, its story, its payload; retry, cancel, replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from stanchion.context import context_of
from stanchion.core.checks import checked_id
from stanchion.core.service_levels import BANDS
from stanchion.core.text.durations import spelled
from stanchion.core.text.redaction import JobRedaction
from stanchion.errors import InvalidInput, JobNotFound, StanchionError
from stanchion.jobs import lookup
from stanchion.jobs.job import Job, JobState
from stanchion.ops.expiry import EXPIRES, expiry_of
from stanchion.ops.job_json import SHOWN, last_error, readable, shown
from stanchion.ops.naming import job_name
from stanchion.ops.reads.chunk import FIRST, MORE, Hide, Items, chunk_of, items_of
from stanchion.ops.reads.filters import CANCELLED, RETRIED
from stanchion.ops.web.acts.moves import move
from stanchion.ops.web.show.foreign import HIDDEN, pretty
from stanchion.ops.web.show.life import life
from stanchion.ops.web.show.present import sentence
from stanchion.ops.web.show.story import steps
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import number
from stanchion.queues.waiting import past_waits, waits_for
from stanchion.stores.fields.jobs import DEATH, Kind


def show(visit: Visit) -> Response:
    """Show a job, with redacted values."""
    return _page(visit, _job(visit), hidden=True)


def reveal(visit: Visit) -> Response:
    """Show a job with all values, once."""
    job = _job(visit)
    visit.audit("show hidden", job.id)
    return _page(visit, job, hidden=False)


def ask(visit: Visit) -> Response:
    """Ask before an act on the job."""
    job, act = _job(visit), visit.request.path_params["act"]
    if act not in _acts(job):
        raise InvalidInput(f"job {job.id} {sentence(job, None)}: {act} is not for it")
    name = job_name(context_of(visit.site.app), job)
    title = {
        "retry": f"Retry {name}?",
        "cancel": f"Cancel {name}?",
        "replay": f"Replay {name} as a copy?",
        "move": f"Move {name} to another queue?",
    }[act]
    return visit.confirm(
        title,
        act.capitalize(),
        f"/jobs/{job.id}/{act}",
        f"/jobs/{job.id}",
        effects=[_goes_back(job) if act == "retry" and job.died_in else _EFFECTS[act], *_of_items(job)],
        value="" if act == "move" else None,
        value_label="To which queue?",
        command="" if act == "move" else f"stanchion {act} {job.id}",
    )


def act(visit: Visit) -> Response:
    """Retry, cancel or replay the job."""
    job, name = _job(visit), visit.request.path_params["act"]
    if name not in (*_DONE, "move"):
        raise InvalidInput(f"a job can be retried, cancelled, replayed and moved, not {name!r}")
    if name == "move":
        target = move(visit, job, visit.form.get("value", ""))
        return visit.done(f"/jobs/{job.id}", f"The job was moved from {job.queue} to {target}")
    visit.audit(name, job.id)
    shown, said = _DONE[name](visit, job)
    return visit.done(f"/jobs/{shown}", said)


def _retry(visit: Visit, job: Job) -> tuple[str, str]:
    after = lookup.retry(context_of(visit.site.app), job.id)
    return after.id, f"The job is ready again, in {after.queue}"


def _cancel(visit: Visit, job: Job) -> tuple[str, str]:
    after = lookup.cancel(context_of(visit.site.app), job.id)
    if after is None:
        raise JobNotFound(job.id)
    if job.state.final or after not in (JobState.RUNNING, JobState.CANCELLED):
        return job.id, f"Not cancelled: the job is {after} already"
    return job.id, "The job is asked to stop" if after is JobState.RUNNING else "The job is cancelled"


def _replay(visit: Visit, job: Job) -> tuple[str, str]:
    copies = lookup.replay(context_of(visit.site.app), [job.id])
    if not copies:
        raise InvalidInput(f"job {job.id} has not ended, or is no longer in history")
    return copies[0].id, f"This job is a copy of {job.id}"


_DONE: dict[str, Callable[[Visit, Job], tuple[str, str]]] = {"retry": _retry, "cancel": _cancel, "replay": _replay}
"""Each act: the job to show afterwards, and a report of the act."""

_EFFECTS = {
    "retry": "It becomes ready immediately, under the same id, with its attempts reset to 0.",
    "cancel": "It ends now. If it is running, its worker is asked to stop it.",
    "replay": "A copy with a new id becomes ready immediately; this job stays in history.",
    "move": "It becomes ready in that queue immediately, under the same id, with its attempts reset to 0.",
}


def _goes_back(job: Job) -> str:
    return f"It becomes ready in {job.died_in} immediately, under the same id, with its attempts reset to 0."


def _of_items(job: Job) -> list[str]:
    """Return what to know before an act on a chunk."""
    if not job.items:
        return []
    split = f"stanchion pipeline split MODULE:PIPELINE {job.id} ITEM"
    return [f"It carries {number(job.items)} items, and this concerns all of them. To take some out first: {split}"]


def _acts(job: Job) -> list[str]:
    """Return what may be done with the job, the likeliest first."""
    found = ["retry"] if job.state in RETRIED else []
    found += ["cancel"] if job.state in CANCELLED else []
    found += ["move"] if job.state is JobState.READY else []
    return [*found, "replay"] if job.state.final else found


def _page(visit: Visit, job: Job, *, hidden: bool) -> Response:
    context = context_of(visit.site.app)
    waits = visit.part("waits", lambda: waits_for(context, job.id)) if job.state is JobState.WAITING else None
    over = visit.part("past_waits", lambda: past_waits(context, job)) or ()
    length, pieces = life(job, visit.now, over)
    name = job_name(context, job)
    redaction = JobRedaction(visit.site.hidden_of(job), readable(job, "payload")[0], HIDDEN)
    return visit.page(
        "job.html",
        f"{name} {sentence(job, waits)}",
        job=job,
        waits=waits,
        last=last_error(job, redaction),
        steps=steps(job, redaction, waits, over),
        length=length,
        pieces=pieces,
        waited=bool(over),
        payload=_shown(job, "payload", redaction.call if hidden else None),
        chunk=_items(visit, job, redaction.call if hidden else _as_it_is),
        result=_shown(job, "result", redaction.value if hidden else None) if job.state is JobState.DONE else None,
        headers=_shown(job, "headers", redaction.value if hidden else None) if job.headers else None,
        hidden=hidden,
        facts=_facts(job),
        acts=_acts(job) if visit.session.caller.operates else [],
    )


def _as_it_is(value: object) -> object:
    return value


def _items(visit: Visit, job: Job, hide: Hide) -> Items | None:
    """Return items of a chunk, from the one that was asked for on; None if there is none to read."""
    if (chunk := chunk_of(job)) is None:
        return None
    asked = visit.asked("items")
    since = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < _PLACE_DIGITS else None
    try:
        found = items_of(chunk, hide, since, FIRST if since is None else MORE)
    except StanchionError:
        return None
    return found._replace(items=[(place, pretty(value, None)) for place, value in found.items])


def _shown(job: Job, name: str, hide: Callable[[object], object] | None) -> Markup:
    """Return a value as text; without its key, an encrypted one stays sealed."""
    try:
        value = shown(getattr(job, name))
    except StanchionError as error:
        return Markup("({})").format(str(error))
    return pretty(value if hide is None else hide(value))


def _facts(job: Job) -> list[tuple[str, str, str]]:
    """Return further details: name, value, and link."""
    found = [
        (_LABELS.get(name, name.replace("_", " ").capitalize()), _fact(job, name, kind), _LINKS.get(name, ""))
        for name, kind in _FACTS.items()
    ]
    if job.died_in not in (None, job.queue):
        found.insert(1, ("Died in", job.died_in or "", "queue"))
    return [fact for fact in found if fact[1]]


def _fact(job: Job, name: str, kind: Kind) -> str:
    """Return a value as text; empty for none."""
    if name in _TEXTS:
        return _TEXTS[name](job)
    value = getattr(job, name)
    return spelled(value) if value and kind is Kind.REAL else value or ""


def _priority(job: Job) -> str:
    band = next(band.name for band in BANDS if job.priority >= band.least).replace("_", " ")
    return f"{job.priority}, {band}".replace("-", "−")


def _tenant(job: Job) -> str:
    lane = f", lane {job.lane}" if job.lane is not None else ""
    return f"{job.tenant}{lane}" if job.tenant else ""


_TEXTS: Final[dict[str, Callable[[Job], str]]] = {
    "priority": _priority,
    "tenant": _tenant,
    "attempts": lambda job: f"{job.attempts} of {job.max_attempts}",
    "limits": lambda job: ", ".join(job.limits),
    EXPIRES: expiry_of,
}
_PLACE_DIGITS: Final = 10
_LABELS: Final = {"timeout": "Time-out", "limits": "Semaphores", "origin": "Copy of"}
_LINKS: Final = {"queue": "queue", "task": "task", "flow": "flow", "origin": "job"}
_FIRST: Final = ("queue", "task", "priority", "tenant", "attempts", "timeout")
_KINDS: Final = {
    one.shown_as: one.kind
    for one in SHOWN
    if one.shown_as not in ("id", "progress", *DEATH)
    and (one.shown_as in _TEXTS or one.kind in (Kind.NAME, Kind.ID, Kind.REAL))
}
_FACTS: Final = {name: _KINDS[name] for name in (*_FIRST, *_KINDS)}


def _job(visit: Visit) -> Job:
    """Return the job of the path. Raises JobNotFound."""
    job_id = checked_id(visit.name)
    job = lookup.get(context_of(visit.site.app), job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job
