"""One request of a page: its user, its parameters, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.ops.audit import Entry
from stanchion.ops.web.access.guard import local_path
from stanchion.ops.web.access.receipts import RECEIPT_COOKIE, Receipt, opened
from stanchion.ops.web.access.session import Session
from stanchion.ops.web.live.deadlines import Missed
from stanchion.ops.web.show.alerts import needs_of
from stanchion.ops.web.show.shell import KEYS_COOKIE, THEME_COOKIE, THEMES, Shell
from stanchion.ops.web.show.templating import query, segment
from stanchion.ops.web.site import Site
from stanchion.stores.protocol import Store

T = TypeVar("T")


class Missing(InvalidInput):
    """The address names something that does not exist, such as a queue."""


@dataclass
class Visit:
    """A request that passed the checks. `form`: the fields of a form, the last of each name, and all `ids`.

    `topics`: sources of the page's news; `fragment`: only the news of the page is wanted. `audited`: its
    last recorded act. `receipt`: the report on the act of this request.
    """

    site: Site
    request: Request
    session: Session
    nonce: str
    form: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    fragment: bool = False
    audited: Entry | None = None
    receipt: Receipt | None = None
    missed: list[str] = field(default_factory=list)
    """Parts of the page that were not read in time, by name."""

    @property
    def store(self) -> Store:
        """The store of the app."""
        return self.site.store

    @cached_property
    def now(self) -> int:
        """The time of this request by the store's clock, in microseconds."""
        return self.store.now()

    @property
    def base(self) -> str:
        """The path below which the page is mounted, without a slash at its end."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    @property
    def name(self) -> str:
        """The name in the path: of a queue, a job, a schedule or a semaphore."""
        return str(self.request.path_params["name"])

    @property
    def address(self) -> str:
        """The address that the request came from."""
        return self.request.client.host if self.request.client else ""

    def asked(self, name: str, default: str = "") -> str:
        """Return a value of the URL's query."""
        return self.request.query_params.get(name, default)

    def part(self, name: str, read: Callable[[], T]) -> T | None:
        """Return a part of a page that can do without it; None if it was not read in time: the page says so.

        `name`: of the part, as the template asks for it.
        """
        try:
            return self.site.deadlines.read(name, name, read)
        except Missed:
            self.missed.append(name)
            return None

    def page(self, template: str, title: str, status: int = 200, **values: object) -> Response:
        """Return a page within the shell. All of it has been read."""
        shell = self.shell(title, self.now)
        self.site.deadlines.lift()
        text = self.site.templates.get_template(template).render(page=shell, at=self.base, **values)
        return HTMLResponse(text, status)

    def bare(self, template: str, title: str, status: int = 200, **values: object) -> Response:
        """Return a page without navigation, which asks the store nothing."""
        shell = self.shell(title, None)
        return HTMLResponse(
            self.site.templates.get_template(template).render(page=shell, at=self.base, title=title, **values), status
        )

    def message(self, title: str, text: str, status: int) -> Response:
        """Return a page that only says something, such as why an act can't be done."""
        return self.page("message.html", title, status, text=self.site.redaction.text(text), back="/")

    def confirm(self, title: str, verb: str, action: str, back: str, **values: object) -> Response:
        """Return a page that asks before an act, with its effects and its form."""
        usual: dict[str, Any] = {
            "effects": [],
            "fields": [],
            "rate": None,
            "value": None,
            "value_label": "",
            "wants_note": "",
            "note_needed": False,
            "number": "",
            "command": "",
        }
        given = {**usual, **values, "verb": verb, "action": action, "back": back}
        return self.page("confirm.html", title, **given)

    def shell(self, title: str, now: int | None) -> Shell:
        """Return the frame of a page; without a time where the store does not answer."""
        theme = self.request.cookies.get(THEME_COOKIE, "")
        return Shell(
            title=title,
            path=str(self.request.scope["path"]).removeprefix(self.base),
            search=self.request.url.query,
            now=now,
            nonce=self.nonce,
            csrf=self.session.csrf,
            caller=self.session.caller,
            logged_in=bool(self.site.tokens),
            store="" if now is None else self.site.label,
            theme=theme if theme in THEMES else THEMES[0],
            keys=self.request.cookies.get(KEYS_COOKIE, "") != "off",
            events=self._events() if self.topics else "",
            outer="fragment.html" if self.fragment else "frame.html",
            missed=tuple(self.missed),
            seconds=self.site.deadlines.seconds,
            needs={} if now is None else self._needs(),
            receipt=self.carried,
        )

    @property
    def carried(self) -> Receipt | None:
        """The receipt that the act before this page has left."""
        cookie = self.request.cookies.get(RECEIPT_COOKIE)
        if cookie is None or "hx-request" in self.request.headers or self.request.method != "GET":
            return None  # a page that is read again in place has shown it
        return opened(cookie, self.session.csrf)

    def _needs(self) -> dict[str, int]:
        sample = self.site.sampler.glance()
        return needs_of(() if sample is None else sample.firing)

    def _events(self) -> str:
        place = self.site.board.place(self.site.board.version_of(self.topics))
        return f"/events{query(topics=self.topics, since=place)}"

    def to(self, path: str) -> Response:
        """Return an answer to a form: see that page, by GET."""
        return RedirectResponse(f"{self.base}{path}", 303)

    def done(self, path: str, text: str, link: str = "", link_text: str = "") -> Response:
        """Return an answer to an act: a redirect to a page that reports the act and where to see its effect."""
        self.receipt = Receipt(self.site.redaction.text(text), link, link_text)
        return self.to(path)

    def back(self) -> str:
        """Return the page that a form names to go back to, one of this site."""
        return local_path(self.form.get("back", ""))

    def back_asked(self, otherwise: str) -> str:
        """Return the page that a link names to go back to, one of this site."""
        return local_path(self.asked("back")) if self.asked("back") else otherwise

    @property
    def segment(self) -> str:
        """The name in the path, as a part of a path."""
        return segment(self.name)

    def audit(self, act: str, subject: str, number: int = 1, note: str = "") -> None:
        """Record an act before it is done. Raises StoreUnavailable: then it must not be done."""
        self.audited = Entry(self.now, self.session.caller.name, act, subject, number, note, self.address)
        self.site.audit.add(self.audited)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Record that a recorded act was refused, unless the store did not answer: then its result is unknown."""
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception as error:
            if (act := self.audited) is not None:
                why = self.site.redaction.text(str(error))
                self.site.audit.add(act._replace(act=f"{act.act}: refused", number=0, note=why))
            raise

    def note(self) -> str:
        """Return the note of a form. Raises InvalidInput if it is too long."""
        text = self.form.get("note", "").strip()
        if len(text) > 300:
            raise InvalidInput("a note has at most 300 characters")
        return text
