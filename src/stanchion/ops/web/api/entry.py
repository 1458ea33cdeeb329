"""A request's route to its operation: caller, parameters and body, the answer or the problem."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from stanchion.errors import StanchionError
from stanchion.ops.web.access.bearer import UnknownToken
from stanchion.ops.web.access.callers import LOCAL, Caller, Role
from stanchion.ops.web.access.guard import csrf_fits, from_another_site, refuses_without_token
from stanchion.ops.web.access.session import PLAIN_COOKIE, SECURE_COOKIE, Session, known_session
from stanchion.ops.web.api.checking import Checks
from stanchion.ops.web.api.operation import Answer, Call, Operation, Shared, encoded
from stanchion.ops.web.api.problems import Problem, answer_of, problem_of
from stanchion.ops.web.site import Site
from stanchion.ops.web.visit import Visit

BODY_MAX: Final = 8 * 1024 * 1024
"""Bytes of the largest body."""

NOBODY: Final = Caller("", Role.READ)
"""The caller of operations that need no token."""

CSRF_HEADER: Final = "X-CSRF-Token"

_log = logging.getLogger("stanchion.web")


class Entry:
    """Lets requests in to the operations of one site."""

    def __init__(self, site: Site, checks: Checks, shared: Shared) -> None:
        self._site, self._checks, self._shared = site, checks, shared

    def endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of an operation."""

        async def endpoint(request: Request) -> Response:
            try:
                return await self._answer(request, operation)
            except Problem as problem:
                return self._told(request, problem)
            except StanchionError as error:
                return self._told(request, problem_of(error))
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception:
                reference = secrets.token_hex(4)
                _log.exception("the API failed at %s %s, reference %s", request.method, request.url.path, reference)
                return self._told(request, Problem("fault", f"the server's log has the details, under {reference}"))

        return endpoint

    def _told(self, request: Request, problem: Problem) -> Response:
        problem.detail = self._site.redaction.text(problem.detail)
        return answer_of(problem, base_of(request), request.url.path)

    async def _answer(self, request: Request, operation: Operation) -> Response:
        session = Session(NOBODY, "", "") if operation.open else self._session(request, reads=operation.reads)
        if (program := session.caller.program) is not None:
            if operation.program not in program.roles and operation.id != "getDocument":
                raise Problem(
                    "forbidden", f"the token of {program.name} may only {' and '.join(sorted(program.roles))}"
                )
        elif not operation.reads and not session.caller.operates:
            raise Problem("forbidden", f"{session.caller.name} may read only: this takes the role operate")
        query = self._checks.query(operation, request.query_params.multi_items())
        text = await _body(request) if operation.body else b""
        visit = Visit(self._site, request, session, "")
        call = Call(visit, self._shared, query)
        if operation.wait is not None:
            await run_in_threadpool(self._read, operation, call, text)
            answer = await operation.wait(call)
        else:
            answer = await run_in_threadpool(self._in_time, operation, call, text)
        if visit.audited:
            self._site.board.touch()
        content = await run_in_threadpool(_json, answer.content)
        return Response(content, answer.status or operation.status, answer.headers, "application/json")

    def _in_time(self, operation: Operation, call: Call, text: bytes) -> Answer:
        """Run an operation, within the deadline if it only reads."""
        if not operation.reads:
            return self._run(operation, call, text)
        return self._site.deadlines.read(operation.id, "It", lambda: self._run(operation, call, text))

    def _run(self, operation: Operation, call: Call, text: bytes) -> Answer:
        self._site.be_patient()
        self._read(operation, call, text)
        assert operation.run is not None  # noqa: S101 - it has one of the two
        with call.visit.acting():
            return operation.run(call)

    def _read(self, operation: Operation, call: Call, text: bytes) -> None:
        """Read and check the body."""
        if operation.body is None:
            return
        call.body = {} if operation.optional_body and not text.strip() else _parsed(text)
        self._checks.body(operation, call.body)

    def _session(self, request: Request, *, reads: bool) -> Session:
        """Return who asks: by a token, by the cookie of a login on the page, or this machine. Raises Problem."""
        site = self._site
        if (caller := self._by_token(request)) is not None:
            return Session(caller, "", "")
        session = known_session(request)
        if session is None and not site.tokens:
            if (reason := refuses_without_token(request)) is not None:
                raise Problem("forbidden", reason)
            if not reads and from_another_site(request):
                raise Problem("forbidden", "a page of another site sent this request")
            return Session(LOCAL, "", "")
        cookie = request.cookies.get(SECURE_COOKIE if request.url.scheme == "https" else PLAIN_COOKIE)
        if session is None and cookie is not None:
            session = site.sessions.of(cookie, site.clock())
        if session is None:
            raise Problem("unauthenticated")
        if not reads and (
            from_another_site(request) or not csrf_fits(session.csrf, request.headers.get(CSRF_HEADER, ""))
        ):
            raise Problem("forbidden", f"with a session of the page, send its CSRF token in the header {CSRF_HEADER}; "
                          "programs send a token in Authorization instead")  # fmt: skip
        return session

    def _by_token(self, request: Request) -> Caller | None:
        try:
            return self._site.bearers.caller_of(request, asyncio.get_running_loop().time())
        except UnknownToken as error:
            if error.wait:
                raise Problem("too-many-attempts", headers={"Retry-After": str(int(error.wait) + 1)}) from None
            no_tokens = "this server has no tokens: start it with --tokens, or leave Authorization out"
            raise Problem("unauthenticated", str(error) if self._site.tokens else no_tokens) from None


def base_of(request: Request) -> str:
    """Return the path of the API, with the path below which the page is mounted."""
    return f"{str(request.scope.get('root_path', '')).rstrip('/')}/v1"


async def _body(request: Request) -> bytes:
    """Return the body. Raises Problem for another kind of body, and for a large one."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 12 or int(length) > BODY_MAX):
        raise _too_large()
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_MAX:
            raise _too_large()
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    encoding = request.headers.get("content-encoding", "identity")
    if body and (kind.strip().lower() != "application/json" or charset not in ("", "utf-8") or encoding != "identity"):
        raise Problem("unsupported-media-type")
    return bytes(body)


def _too_large() -> Problem:
    return Problem("too-large", f"a body has at most {BODY_MAX:,} bytes: send fewer jobs, and references in "
                   "place of large payloads")  # fmt: skip


def _parsed(text: bytes) -> object:
    """Return the value of a body. Raises Problem."""
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise Problem("not-json", "the body is nested too deeply") from None
    except ValueError as error:  # also invalid UTF-8, and an integer of thousands of digits
        raise Problem("not-json", f"the body is not JSON in UTF-8: {str(error)[:200]}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _json(content: object) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return encoded(content)
    except RecursionError:
        raise Problem("conflict", "the answer is nested too deeply to be JSON") from None
