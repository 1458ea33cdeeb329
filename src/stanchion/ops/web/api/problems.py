"""Errors as problem details, RFC 9457: what went wrong, where, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from stanchion.errors import (
    DuplicateKey,
    FlowNotFound,
    InvalidInput,
    JobNotFound,
    LeaseLost,
    NotPermitted,
    SchemaMismatch,
    StanchionError,
    StoreUnavailable,
)

MEDIA_TYPE: Final = "application/problem+json"

SILENT_SECONDS: Final = 5
"""Seconds after which a client should ask a store again that did not answer."""


class Kind(NamedTuple):
    """A kind of problem. `advice`: what to do about it, where the problem itself does not say so."""

    code: str
    status: int
    title: str
    advice: str


KINDS: Final = {
    kind.code: kind
    for kind in (
        Kind("not-json", 400, "The body is not JSON", "Send one JSON value in UTF-8, without NaN and Infinity."),
        Kind("foreign-cursor", 400, "The cursor is not of this list", "Take `next` of a page of the same list, and "
             "send it with the same filter; or begin again without `after`."),
        Kind("unauthenticated", 401, "Who asks?", "Send `Authorization: Bearer TOKEN` with a token of the file that "
             "`stanchion web --tokens` reads."),
        Kind("forbidden", 403, "This caller may not do this", "Use a token with the role operate; or, without tokens, "
             "call from the machine itself by the name localhost."),
        Kind("not-found", 404, "There is no such thing", "Check the address; finished jobs are deleted after the "
             "history_ttl of their queue."),
        Kind("method-not-allowed", 405, "The address has no such method", "Use a method in the header Allow."),
        Kind("conflict", 409, "The state does not allow this", "Read the state again, then decide."),
        Kind("lease-lost", 409, "The lease is lost", "Discard this attempt's work. Reserve with a longer lease, or "
             "extend it in time."),
        Kind("duplicate-key", 409, "The key is taken", "Wait for the job that has it, or push with on_duplicate "
             "return or replace."),
        Kind("too-large", 413, "The body is too large", "Send fewer jobs per request, and references in place of large "
             "payloads."),
        Kind("unsupported-media-type", 415, "The body has another type", "Send `Content-Type: application/json`, "
             "without a content encoding."),
        Kind("invalid", 422, "The request is not valid", "`errors` names each wrong field and its valid values."),
        Kind("too-many-attempts", 429, "Too many unknown tokens", "Wait for the seconds in Retry-After, and check the "
             "token."),
        Kind("fault", 500, "The server failed", "Its log has the traceback under the same reference."),
        Kind("busy", 503, "Too many clients wait", "Ask again after the seconds in Retry-After."),
        Kind("store-unavailable", 503, "The store does not answer", "Ask again after the seconds in Retry-After; "
             "all stored jobs are safe."),
    )
}  # fmt: skip
"""All kinds, by their codes."""


class Wrong(NamedTuple):
    """The problem with a field. `pointer`: into the body, by RFC 6901; `parameter`: a name in the URL."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None


class Problem(Exception):
    """A request that gets no other answer. `more`: further members of the answer."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        errors: Sequence[Wrong] = (),
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        self.kind = KINDS[code]
        super().__init__(detail or self.kind.advice)
        self.detail, self.errors, self.headers, self.more = str(self), errors, dict(headers or {}), more


def problem_of(error: StanchionError) -> Problem:
    """Return what an error of the library means to a client."""
    text = str(error)
    match error:
        case JobNotFound() | FlowNotFound():
            return Problem("not-found", text)
        case LeaseLost():
            return Problem("lease-lost", text)
        case DuplicateKey():
            return Problem("duplicate-key", text, job=error.job_id)
        case InvalidInput():
            return Problem("invalid", text)
        case StoreUnavailable() | SchemaMismatch():
            return Problem("store-unavailable", text, headers={"Retry-After": str(SILENT_SECONDS)})
        case NotPermitted():
            return Problem("forbidden", text)
        case _:
            return Problem("conflict", text)


def described(kind: Kind, base: str) -> dict[str, object]:
    """Return the details of a kind of problem, as its address shows them."""
    return {"type": type_of(kind, base), "code": kind.code, "status": kind.status, "title": kind.title,
            "detail": kind.advice}  # fmt: skip


def type_of(kind: Kind, base: str) -> str:
    """Return the URI of a kind of problem."""
    return f"{base}/problems/{kind.code}"


def answer_of(problem: Problem, base: str, path: str) -> Response:
    """Return a problem as an answer. `base`: the path of the API; `path`: the one that was asked."""
    content: dict[str, object] = {
        **described(problem.kind, base),
        "detail": problem.detail,
        "instance": path,
        "errors": [
            {name: value for name, value in wrong._asdict().items() if value is not None} for wrong in problem.errors
        ],
        **problem.more,
    }
    headers = dict(problem.headers)
    if problem.kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="stanchion"'
    return Response(json.dumps(content), problem.kind.status, headers, MEDIA_TYPE)
