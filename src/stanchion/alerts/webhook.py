"""Posts changes of alerts to a URL, each once, with retries.

A change waits until it is delivered. For one alert only the newest counts: an alert that began and ended before any
delivery is not reported. The receiver may get a change twice if its answer was lost; `id` is the same then.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import urlsplit
from uuid import uuid4

from stanchion.alerts.changes import Change
from stanchion.core.backoff import Backoff
from stanchion.errors import InvalidInput

log = logging.getLogger("stanchion.alerts")

TIMEOUT_SECONDS = 5.0
LONGEST_PAUSE = 300.0
_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.TOO_EARLY})


class Webhook:
    """Posts JSON to `url`. `token`: sent as a bearer token. `clock`: seconds, for the pauses between tries.

    Raises InvalidInput unless the URL is of http or https.
    """

    def __init__(
        self, url: str, source: str, token: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"a webhook is an address of http or https, such as https://example.org/hook, not {url}")
        self._url, self._source, self._clock = url, source, clock
        self._headers = {"Content-Type": "application/json", "User-Agent": "stanchion"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._backoff = Backoff(first=1.0, longest=LONGEST_PAUSE)
        self._next_try = 0.0
        self._waiting: dict[str, tuple[str, Change]] = {}
        self._told: set[str] = set()

    @property
    def waiting(self) -> int:
        """The number of changes that are not delivered yet."""
        return len(self._waiting)

    def add(self, changes: Iterable[Change]) -> None:
        """Take changes to deliver."""
        for change in changes:
            key = change.alert.key
            self._waiting.pop(key, None)
            if change.status == "firing" or key in self._told:
                self._waiting[key] = uuid4().hex, change

    def deliver(self) -> int:
        """Deliver what waits, unless it is too soon after a failure; return how many were delivered."""
        delivered = 0
        while self._waiting and self._clock() >= self._next_try:
            key, (delivery, change) = next(iter(self._waiting.items()))
            body = {"id": delivery, "source": self._source, **change.as_json()}
            if not self._posted(body):
                self._next_try = self._clock() + self._backoff.failed()
                break
            self._backoff.succeeded()
            del self._waiting[key]
            (self._told.add if change.status == "firing" else self._told.discard)(key)
            delivered += 1
        return delivered

    def _posted(self, body: Mapping[str, object]) -> bool:
        """Post; return False if a later try may help."""
        request = urllib.request.Request(  # noqa: S310 - http or https, as checked
            self._url, json.dumps(body).encode(), self._headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310
                return True
        except urllib.error.HTTPError as error:
            with error:
                if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _AGAIN:
                    log.error("the webhook refuses an alert for good: %d %s", error.code, error.reason)
                    return True
                log.warning("the webhook failed, it is tried again: %d %s", error.code, error.reason)
        except (OSError, HTTPException) as error:
            log.warning("the webhook does not answer, it is tried again: %s", error)
        return False
