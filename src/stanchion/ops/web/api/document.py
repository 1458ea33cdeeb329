"""The OpenAPI document, made of the operations and schemas themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from stanchion.ops.web.api.operation import Operation, Schema
from stanchion.ops.web.api.problems import KINDS, MEDIA_TYPE
from stanchion.ops.web.api.schemas.kinds import name, ref

ABOUT: Final = (
    "Queues, jobs and workers of a store, for clients of any language. Names in paths are percent-encoded, with "
    "slashes. Times are RFC 3339 in UTC, by the clock of the store. Numbers in payloads, results and headers are as "
    "they were pushed, of any size. Lists come in pages: send `next` as `after`, with the same filter."
)

TAGS: Final = {
    "work": "Push, reserve and finish jobs.",
    "jobs": "Read jobs, and act on them.",
    "queues": "Queues and their settings.",
    "bulk": "One act on many jobs.",
    "watch": "Alerts and figures.",
    "parts": "Flows, pipelines, streams, semaphores, workers, managers, schedules.",
    "about": "The API itself.",
}

_ALWAYS: Final = ("unauthenticated", "forbidden", "invalid", "too-many-attempts", "fault", "store-unavailable")
_WITH_BODY: Final = ("not-json", "too-large", "unsupported-media-type")
_NAMED: Final = re.compile(r"\{(\w+)\}")


def document(operations: Iterable[Operation], components: Mapping[str, Schema], version: str, base: str) -> Any:
    """Return the document. `base`: the path of the API."""
    paths: dict[str, dict[str, object]] = {}
    for one in operations:
        paths.setdefault(one.shown_path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.1",
        "info": {"title": "Stanchion", "version": version, "description": ABOUT,
                 "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "servers": [{"url": base}],
        "security": [{"token": []}, {"session": []}, {}],
        "tags": [{"name": tag, "description": about} for tag, about in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer",
                          "description": "A token of the `--tokens` file; all methods but GET need operate."},
                "session": {"type": "apiKey", "in": "cookie", "name": "stanchion",
                            "description": "A login on the page; every method but GET also needs its X-CSRF-Token."},
            },
        },
    }  # fmt: skip


def _operation(one: Operation) -> dict[str, object]:
    found: dict[str, Any] = {"operationId": one.id, "tags": [one.tag], "summary": one.summary}
    parameters = [_parameter("path", key, name(), required=True) for key in _NAMED.findall(one.shown_path)]
    parameters += [_parameter("query", key, schema) for key, schema in one.query.items()]
    parameters += [_parameter("header", key, schema) for key, schema in one.headers.items()]
    if parameters:
        found["parameters"] = parameters
    if one.body is not None:
        content = {"application/json": {"schema": ref(one.body)}}
        found["requestBody"] = {"required": not one.optional_body, "content": content}
    found["responses"] = {str(one.status): _answer(one.summary, one.result), **_problems(one)}
    if one.dry_result is not None:
        found["responses"]["200"] = _answer("Of a dry run.", one.dry_result)
    return found


def _answer(about: str, schema: str) -> dict[str, object]:
    return {"description": about, "content": {"application/json": {"schema": ref(schema)}}}


def _parameter(place: str, key: str, schema: Schema, *, required: bool = False) -> dict[str, object]:
    about = {"description": schema["description"]} if "description" in schema else {}
    return {"name": key, "in": place, **about, **({"required": True} if required else {}),
            "schema": {one: value for one, value in schema.items() if one != "description"}}  # fmt: skip


def _problems(one: Operation) -> dict[str, object]:
    codes = [*_ALWAYS, *one.problems, *(_WITH_BODY if one.body else ()), *(("not-found",) if "{" in one.path else ())]
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in sorted(set(by_status[status]))),
            "content": {MEDIA_TYPE: {"schema": ref("Problem")}},
            **({"headers": {"Retry-After": {"schema": {"type": "integer"}}}} if status in (429, 503) else {}),
        }
        for status in sorted(by_status)
    }
