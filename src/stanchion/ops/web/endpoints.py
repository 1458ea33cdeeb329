"""The way of a request to its page: checks, form, session, answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from stanchion.errors import InvalidInput, JobNotFound, SchemaMismatch, StanchionError, StoreUnavailable
from stanchion.ops.web.access.callers import Caller
from stanchion.ops.web.access.guard import SAFE_METHODS, csrf_fits, from_another_site, local_path, refuses_without_token
from stanchion.ops.web.access.receipts import LASTS as RECEIPT_LASTS
from stanchion.ops.web.access.receipts import RECEIPT_COOKIE, sealed
from stanchion.ops.web.access.session import LASTS, PLAIN_COOKIE, SECURE_COOKIE, Session, known_session
from stanchion.ops.web.live.deadlines import Missed
from stanchion.ops.web.live.fragments import Key
from stanchion.ops.web.live.sampler import Sampler
from stanchion.ops.web.show.shell import KEYS_COOKIE, THEME_COOKIE
from stanchion.ops.web.site import Site
from stanchion.ops.web.visit import Missing, Visit

Page = Callable[[Visit], Response]

FORM_BYTES: Final = 64 * 1024
"""The largest form."""

POLLED: Final = 5.0
"""Seconds for which all tabs get the same page, without news."""

_log = logging.getLogger("stanchion.web")


class Refused(Exception):
    """A request that gets no page: its status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Endpoints:
    """Makes the endpoints of the pages of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def page(self, page: Page, *topics: str, open_to_all: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a page. Its forms need the role operate, unless they are `open_to_all`.

        `topics`: the sources of its news, such as `queue:{name}`; a page without any is new for POLLED seconds.
        """

        async def endpoint(request: Request) -> Response:
            session = None
            try:
                session = self._session(request)
                if session is None:
                    return self._to_login(request)
                visit = self._visit(request, session, topics)
                if request.method not in SAFE_METHODS:
                    await self._check_form(visit, open_to_all=open_to_all)
                if request.method == "GET" and "hx-request" in request.headers:
                    response = await self._again(visit, page)
                else:
                    response = await run_in_threadpool(self._answer, page, visit)
                if visit.audited:
                    self.site.board.touch()
                hand_over(visit, response)
            except Refused as refused:
                response = PlainTextResponse(f"{refused.reason}\n", refused.status)
            if session is not None and session.cookie and request.cookies.get(cookie_name(request)) != session.cookie:
                set_session(request, response, session)
            return response

        return endpoint

    def _visit(self, request: Request, session: Session, topics: Iterable[str]) -> Visit:
        own = tuple(one.format_map(request.path_params) for one in topics)
        return Visit(self.site, request, session, str(request.scope["stanchion.nonce"]), topics=own)

    async def _again(self, visit: Visit, page: Page) -> Response:
        """Answer a tab that has the page already, and wants only news of it."""
        site, request = self.site, visit.request
        version: tuple[int, ...] = (site.board.version_of(()), int(time.monotonic() / POLLED))
        if visit.topics:
            site.sampler.ask()
            if not site.sampler.awake:
                await run_in_threadpool(_wake, site.sampler)
            version = (site.board.version_of(visit.topics),)
        look = tuple(request.cookies.get(name, "") for name in (THEME_COOKIE, KEYS_COOKIE))
        path, role = str(request.scope["path"]), str(visit.session.caller.role)
        key = Key(path, request.url.query, visit.base, look, role, version)

        async def render(shared: Session) -> Response:
            wanted = Visit(site, request, shared, "", topics=visit.topics, fragment=True)
            return await run_in_threadpool(self._answer, page, wanted)

        known = request.headers.get("if-none-match", "")
        return await site.fragments.answer(key, visit.session, site.board.epoch, known, render)

    def _answer(self, page: Page, visit: Visit) -> Response:
        """Run a page, within the deadline if it only reads: an act is not left in its middle."""
        if visit.request.method not in SAFE_METHODS:
            return _answer(page, visit)
        try:
            kind = f"{page.__module__}.{page.__name__}"
            return self.site.deadlines.read(kind, "This page", lambda: _answer(page, visit))
        except Missed as error:
            return _silent(visit, str(error))

    def refusal(self, request: Request) -> str | None:
        """Return why a request that needs a session gets nothing; None if it has one."""
        try:
            return None if self._session(request) is not None else "log in first"
        except Refused as refused:
            return refused.reason

    async def login(self, request: Request) -> Response:
        """Show the form of the login, or log in."""
        base = str(request.scope.get("root_path", "")).rstrip("/")
        if not self.site.tokens or known_session(request) is not None:
            return RedirectResponse(f"{base}/", 303)
        if request.method in SAFE_METHODS:
            return self._login_page(request, local_path(request.query_params.get("back", "")))
        if from_another_site(request):
            return PlainTextResponse("this form came from another site\n", 403)
        form = dict(await _fields(request))
        back, clock = local_path(form.get("back", "")), asyncio.get_running_loop().time
        address = request.client.host if request.client else ""
        if (wait := self.site.attempts.wait(address, clock())) > 0:
            answer = self._login_page(request, back, "Too many attempts: wait a minute.", 429)
            answer.headers["Retry-After"] = str(int(wait) + 1)
            return answer
        token = self.site.tokens.token_of(form.get("token", ""))
        if token is not None and token.caller.program is not None:
            return self._login_page(request, back, "This token is for programs, which use the API.", 403)
        if token is None:
            self.site.attempts.failed(address, clock())
            _log.warning("a login from %s failed", address)
            await asyncio.sleep(self.site.login_delay)
            return self._login_page(request, back, "This token is not known.", 401)
        self.site.attempts.succeeded(address)
        response = RedirectResponse(f"{base}{back}", 303)
        set_session(request, response, self.site.sessions.begin(token, self.site.clock()))
        return response

    def _session(self, request: Request) -> Session | None:
        """Return the session of a request; None if it must log in. Raises Refused."""
        if (known := known_session(request)) is not None:
            return known
        site, now = self.site, self.site.clock()
        if not site.tokens and (reason := refuses_without_token(request)) is not None:
            raise Refused(403, reason)
        cookie = request.cookies.get(cookie_name(request))
        found = None if cookie is None else site.sessions.of(cookie, now)
        if found is None and not site.tokens:
            found = site.sessions.begin_local(now)
        return found

    async def _check_form(self, visit: Visit, *, open_to_all: bool) -> None:
        """Read and check the form of a visit. Raises Refused."""
        if from_another_site(visit.request):
            raise Refused(403, "this form came from another site")
        fields = await _fields(visit.request)
        visit.form = dict(fields)
        visit.ids = tuple(value for name, value in fields if name == "id")
        if not csrf_fits(visit.session.csrf, visit.form.get("csrf", "")):
            raise Refused(403, "this form is not of this session: go back, load the page again, and repeat")
        if not open_to_all and not visit.session.caller.operates:
            raise Refused(403, f"{visit.session.caller.name} may read only: this takes the role operate")

    def _to_login(self, request: Request) -> Response:
        base = str(request.scope.get("root_path", "")).rstrip("/")
        if request.method not in SAFE_METHODS:
            return PlainTextResponse("log in first\n", 401)
        path = str(request.scope["path"]).removeprefix(base)
        return RedirectResponse(f"{base}/login?back={path}" if path not in ("", "/") else f"{base}/login", 303)

    def missing(self, request: Request, error: Exception) -> Response:
        """Answer an address without a page, or without this method. It reveals nothing, so it needs no session."""
        title, text = "There is no such page", "The address may be mistyped, or from another release."
        status, headers = getattr(error, "status_code", 404), dict(getattr(error, "headers", None) or {})
        if status == 405:
            allowed = headers.setdefault("Allow", "GET, HEAD")
            title, text = "This address does not take that", f"It takes {allowed}. Acts are forms on the pages."
        response = self._stranger(request).bare("login.html", title, status, text=text, form=False, back="/", error="")
        response.headers.update(headers)
        return response

    def _login_page(self, request: Request, back: str, error: str = "", status: int = 200) -> Response:
        return self._stranger(request).bare("login.html", "Log in", status, back=back, error=error, text="", form=True)

    def _stranger(self, request: Request) -> Visit:
        return Visit(self.site, request, Session(Caller(""), "", ""), str(request.scope["stanchion.nonce"]))


def _wake(sampler: Sampler) -> None:
    """Have the sampler read again; the page shows if it can't."""
    with suppress(StanchionError):
        sampler.latest()


def _answer(page: Page, visit: Visit) -> Response:
    """Run a page; answer failures with a page that explains them."""
    visit.site.be_patient()
    try:
        with visit.acting():
            return page(visit)
    except JobNotFound as error:
        return visit.message("There is no such job", str(error), 404)
    except Missing as error:
        return visit.message("There is no such thing", str(error), 404)
    except InvalidInput as error:
        return visit.message("This can’t be done", str(error), 400)
    except StoreUnavailable as error:
        _log.warning("the store does not answer: %s", error)
        return _silent(visit, str(error))
    except SchemaMismatch as error:
        return _later(visit, "The store is not set up", str(error))
    except StanchionError as error:
        return visit.message("This can’t be done", str(error), 409)


def _silent(visit: Visit, error: str) -> Response:
    text = f"Workers keep trying by themselves, and running jobs continue. {error}"
    return _later(visit, "The store does not answer", text)


def _later(visit: Visit, title: str, text: str) -> Response:
    """Answer that no page can be read now; the browser asks again."""
    text = visit.site.redaction.text(text)
    response = visit.bare("login.html", title, 503, text=text, form=False, back="", error="")
    response.headers["Retry-After"] = response.headers["Refresh"] = "5"
    return response


async def _fields(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form. Raises Refused for another kind of body, and for a large one."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "a form is application/x-www-form-urlencoded")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise Refused(413, f"a form has at most {FORM_BYTES:,} bytes")
    try:
        return parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=1000)
    except ValueError:  # also non-ASCII text
        raise Refused(400, "this is not a form") from None


def hand_over(visit: Visit, response: Response) -> None:
    """Give a browser the receipt of its act, and take it back once a page has shown it."""
    secure = visit.request.url.scheme == "https"
    if visit.receipt is not None:
        text = sealed(visit.receipt, visit.session.csrf)
        response.set_cookie(
            RECEIPT_COOKIE, text, max_age=RECEIPT_LASTS, path="/", secure=secure, httponly=True, samesite="strict"
        )
    elif visit.carried is not None and response.headers.get("content-type", "").startswith("text/html"):
        response.delete_cookie(RECEIPT_COOKIE, path="/", secure=secure, httponly=True, samesite="strict")


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie: by TLS, one that no other host can set."""
    return SECURE_COOKIE if request.url.scheme == "https" else PLAIN_COOKIE


def set_session(request: Request, response: Response, session: Session) -> None:
    """Give a browser its session."""
    secure = request.url.scheme == "https"
    response.set_cookie(
        cookie_name(request), session.cookie, max_age=LASTS, path="/", secure=secure, httponly=True, samesite="strict"
    )
