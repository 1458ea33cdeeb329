"""Changing a setting of a queue, and pushing a job into it by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from stanchion.core.service_levels import BANDS
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput
from stanchion.ops.web.acts.settings import HELP, change, text_of
from stanchion.ops.web.pages.queues.queue import known_queue
from stanchion.ops.web.visit import Visit

_FIELDS: Final = ("payload", "priority", "delay", "tenant", "key", "note")

PAYLOAD_MAX: Final = 32 * 1024
"""Characters of a payload that may be pushed by hand."""


def ask(visit: Visit) -> Response:
    """Ask for the new value of a setting."""
    queue, name = known_queue(visit), visit.asked("setting")
    if name not in HELP:
        raise InvalidInput(f"the setting {name[:40]!r} can't be changed here")
    now = text_of(name, getattr(queue, name))
    return visit.confirm(
        f"Change {name} of {queue.name}?",
        f"Change {name}",
        f"/set/{visit.segment}",
        f"/queues/{visit.segment}",
        effects=[HELP[name], f"It is {now} now. Every process follows the new value within seconds."],
        fields=[("setting", name)],
        value=now,
        value_label="New value; none lifts a limit",
        wants_note="Why? (for the audit log)",
        command=f"stanchion queues set {queue.name} {name}=VALUE",
    )


def save(visit: Visit) -> Response:
    """Change a setting."""
    queue, name = known_queue(visit), visit.form.get("setting", "")
    after = change(visit, queue, name, visit.form.get("value", ""), visit.note())
    visit.site.sampler.renew()
    values = [text_of(name, getattr(one, name)) for one in (queue, after)]
    return visit.done(f"/queues/{visit.segment}", f"{name} of {queue.name} is {values[1]}; it was {values[0]}")


def ask_push(visit: Visit) -> Response:
    """Show the form of a new job."""
    return _form(visit, {}, "")


def push(visit: Visit) -> Response:
    """Push a job with the payload of the form; show the form again where it is wrong."""
    queue, form = known_queue(visit), visit.form
    try:
        payload, options = _payload(form.get("payload", "")), _options(form)
        visit.audit("push", queue.name, 1, visit.note())
        job = visit.site.app.queue(queue.name).push(payload, **options)
    except InvalidInput as error:
        return _form(visit, dict(form), str(error))
    said = f"A job was pushed into {queue.name}"
    if job.duplicate:
        said = f"Not pushed: this live job of {queue.name} has the key {job.key} already"
    return visit.done(f"/jobs/{job.id}", said)


def _form(visit: Visit, given: dict[str, str], error: str) -> Response:
    queue = known_queue(visit)
    if not visit.session.caller.operates:
        raise InvalidInput(f"{visit.session.caller.name} may read only: a push takes the role operate")
    title = f"Push a job into {queue.name}?"
    bands = [band.name for band in BANDS]
    given = {name: given.get(name, "") for name in _FIELDS}
    return visit.page("push.html", title, 400 if error else 200, queue=queue, given=given, error=error, bands=bands)


def _payload(text: str) -> object:
    if len(text) > PAYLOAD_MAX:
        raise InvalidInput(f"a payload has at most {PAYLOAD_MAX:,} characters here")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the payload is not JSON: {error}") from None


def _options(form: Mapping[str, str]) -> dict[str, Any]:
    given = {name: form.get(name, "").strip() for name in ("priority", "delay", "tenant", "key")}
    found: dict[str, object] = {name: given[name] for name in ("tenant", "key") if given[name]}
    if given["delay"]:
        found["delay"] = duration(given["delay"], "the delay")
    if text := given["priority"]:
        number = text.removeprefix("-")
        found["priority"] = int(text) if number.isdecimal() and number.isascii() and len(number) < 6 else text
    return found
