"""Reference of settings: of queues, of one job, of tasks, of workers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from docs.site.reference.api import package
from docs.site.reference.tables import code, prose, table

from stanchion.stores.fields.queues import SETTABLE

_SET: Final = {one.name for one in SETTABLE}

_NAMES: Final = r"`\w+`(?:(?:,| and) `\w+`)*"
_MEANING: Final = re.compile(rf"({_NAMES}): (.*?)(?=[;.] {_NAMES}: |$)")


def page() -> str:
    """Return the page."""
    found = package()
    queue = found["stores.records.queues.QueueSettings"]
    fields = [one for one in queue.attributes.values() if "property" not in one.labels and one.name in _SET]
    job = found["jobs.options.EnqueueOptions"]
    enqueue = {one.name for one in _options(job)}
    task = found["tasks.task.TaskOptions"]
    parts = [
        "# Settings",
        "## Queue settings",
        "Stored with the queue; set them in code with `app.queue(name, ...)`, or for all processes with "
        "`queue.configure(...)` and `stanchion queues set`. See [Queues](/queues.md).",
        prose(queue.docstring.value),
        table(["setting", "type", "default", "meaning"], map(_row, fields)),
        "## Job options",
        "Options of `task.using(...)`, `queue.push(...)` and `app.enqueue(...)`. See [Tasks](/tasks.md).",
        _described(_options(job), job.docstring.value),
        "## Task options",
        "Options of `@app.task(...)`: `name`, `retry`, all job options as defaults, and these.",
        _described([one for one in _options(task) if one.name not in enqueue], task.docstring.value),
        "## Worker options",
        "Options of `Worker(app, ...)`; `stanchion worker` has the same as flags. See [Workers](/workers.md).",
        _defaults(found["Worker"].final_target.parameters, found["Worker"].final_target.docstring.value),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _row(one: Any) -> tuple[str, str, str, str]:
    default = one.value if one.value is not None and "field(" not in str(one.value) else None
    if one.value is not None and "field(default=" in str(one.value):
        default = str(one.value).partition("default=")[2].partition(",")[0].rstrip(")")
    return code(one.name), code(str(one.annotation)), code(str(default or "")), _about(one)


def _described(options: Iterable[Any], docstring: str) -> str:
    """Return a table of options, whose meanings are in their own docstrings or in that of their class."""
    said = meanings(docstring)
    rows = [(code(one.name), code(str(one.annotation)), _about(one) or prose(said.get(one.name))) for one in options]
    return table(["option", "type", "meaning"], rows)


def meanings(docstring: str) -> dict[str, str]:
    """Return what a docstring says of each name, as in "`delay`: seconds from now; `key`: ..."."""
    found = {}
    for paragraph in docstring.split("\n\n"):
        for names, text in _MEANING.findall(" ".join(paragraph.split())) if not paragraph.startswith(" ") else ():
            for name in re.findall(r"`(\w+)`", names):
                found[name] = text.strip().rstrip(";.")
    return found


def _options(job: Any) -> list[Any]:
    return [one for one in job.all_members.values() if one.is_attribute and not one.name.startswith("_")]


def _about(one: Any) -> str:
    return prose(one.docstring.value).replace("\n", " ") if one.docstring else ""


def _defaults(parameters: Any, docstring: str) -> str:
    said = meanings(docstring)
    rows = [
        (code(one.name), code(str(one.annotation or "")), code(str(one.default or "")), prose(said.get(one.name)))
        for one in parameters
        if one.name not in ("self", "app") and one.kind and "variadic" not in one.kind.value
    ]
    return table(["option", "type", "default", "meaning"], rows)
