"""One page over one app: what all its requests share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from jinja2 import Environment

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.core.text.hiding import Hidden
from stanchion.core.text.redaction import REDACTION, Redaction
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.ops.audit import AuditLog
from stanchion.ops.web.access.attempts import Attempts
from stanchion.ops.web.access.bearer import Bearers
from stanchion.ops.web.access.callers import Tokens
from stanchion.ops.web.access.session import Sessions
from stanchion.ops.web.bulk_work.bulk import BulkWorks
from stanchion.ops.web.bulk_work.runner import Runner
from stanchion.ops.web.live.deadlines import Deadlines
from stanchion.ops.web.live.fragments import Fragments
from stanchion.ops.web.live.past import Past
from stanchion.ops.web.live.reports import Reports
from stanchion.ops.web.live.sampler import Sampler
from stanchion.ops.web.live.topics import Board, parts_of
from stanchion.ops.web.show.templating import environment
from stanchion.stores.protocol import Store
from stanchion.stores.registry import shown_url

LOGIN_DELAY = 1.0
"""Seconds after which a failed login is answered."""

FIRST_SECONDS = 8.0
"""Seconds that a page may take longer as long as the first reading of its process is not there."""


@dataclass
class Site:
    """The app, the allowed users of its page, and the page's caches."""

    app: Stanchion
    tokens: Tokens
    redaction: Redaction = REDACTION
    login_delay: float = LOGIN_DELAY
    deadlines: Deadlines = field(default_factory=Deadlines)
    clock: Callable[[], float] = time.time
    """The process's own clock, for sessions and attempts to log in."""

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.tokens)
        self.attempts, self.bearers = Attempts(), Bearers(self.tokens)
        self.templates: Environment = environment()
        self.audit = AuditLog(lambda: self.store)
        self.bulk = BulkWorks(lambda: self.store)
        self.runner = Runner(lambda: context_of(self.app), self.bulk, self.audit)
        self.board, self.fragments = Board(), Fragments()
        self.sampler = Sampler(
            lambda: context_of(self.app), lambda sample: self.board.read(parts_of(sample), time.monotonic())
        )
        self.past = Past(lambda: self.store)
        self.reports = Reports(self.app)
        self.closed = False
        self._label: str | None = None

    @property
    def store(self) -> Store:
        """The store, with the partitions of its queues."""
        return context_of(self.app).fresh_store

    @property
    def label(self) -> str:
        """The store in a few words, without credentials: the names of its database and schema, and its kind."""
        if self._label is None:
            try:
                address, _, options = shown_url(self.app.url).partition("?")
                place = ".".join([address.rstrip("/").rpartition("/")[2], *parse_qs(options).get("schema", [])])
            except InvalidInput:  # a store that was given as an object
                place = ""
            self._label = f"{place.rpartition('@')[2]} · {self.store.capabilities.name}".removeprefix(" · ")
        return self._label

    def hidden_of(self, job: Job) -> Hidden | None:
        """Return the hidden arguments of a job's task."""
        return context_of(self.app).hidden.of(self.store, [job.task]).get(job.task or "")

    def be_patient(self) -> None:
        """Give the page that is read more time as long as nothing has been read here: then it counts all live jobs."""
        if self.sampler.sample is None:
            self.deadlines.allow(FIRST_SECONDS)

    def end_streams(self) -> None:
        """End the streams of open tabs, which would delay the server's stop."""
        self.closed = True
        self.board.wake()

    def close(self) -> None:
        """Stop the bulk work of this process, which another one continues, its reader and its streams."""
        self.end_streams()
        self.sampler.close()
        self.reports.close()
        self.runner.close()
