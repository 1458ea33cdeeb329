"""The connection to MongoDB: deadlines, safe retries, and error messages."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient, ReadPreference
from pymongo.errors import ConfigurationError, DocumentTooLarge, InvalidOperation, InvalidURI, PyMongoError
from pymongo.uri_parser import parse_uri

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.cas.faults import Fault
from stanchion.stores.mongo.client.address import Address
from stanchion.stores.mongo.client.documents import Document, micros
from stanchion.stores.mongo.client.errors import (
    TOO_LARGE,
    fault_of,
    is_too_large,
    reason_of,
    way_out,
    without_documents,
)
from stanchion.stores.mongo.client.on_loop import AnyClient, AnySession, database_of
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND

T = TypeVar("T")

BULK_SECONDS = 600.0
"""Seconds that calls of operators may take which may change every job of a queue."""

ARMS = 40
"""Maximum number of aggregations in one command."""

PATIENCE = 15.0
"""Maximum seconds that the server waits for a signal before it answers that there is none."""

_DEFAULTS: dict[str, Any] = {
    "appname": "stanchion",
    "serverSelectionTimeoutMS": 5000,
    "connectTimeoutMS": 5000,
    "socketTimeoutMS": int((PATIENCE + calls.CALL_SECONDS) * 1000),
    "w": "majority",
    "journal": True,
}
CODECS: CodecOptions[Document] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
"""Dates are read as milliseconds, a type distinct from the client's clock."""


class Access(Protocol):
    """Access to the collections: directly, or within a caller's transaction."""

    in_transaction: bool

    @property
    def outside(self) -> Server:
        """The server, for commands outside of a caller's transaction."""

    def now(self) -> int:
        """Return the server's clock."""

    def at(self, date: DatetimeMS) -> int:
        """Return a date of the server's clock as a stored time."""

    def call(self, work: Callable[[Place, bool], T], seconds: float | None = ...) -> T:
        """Do the work within `seconds` (CALL_SECONDS); its second argument is True after a lost reply."""


class Server:
    """A client, made on first use, and calls to it."""

    in_transaction = False

    def __init__(self, address: Address) -> None:
        self.address = address
        self.clock_offset = 0.0
        self.joined: WeakSet[AnyClient] = WeakSet()
        """Clients of callers known to reach this store."""
        self.queues_made: dict[str, frozenset[str]] = {}
        """The queues known to have a document, with their stored shapes.

        Another process may since have dropped a queue, or reset its shape.
        """
        given = _given(address.url)
        self._options = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
        self._is_bounded = bool(given.get("maxpoolsize"))
        """The URL limits the connections, so all of them are for calls."""
        self._place: Place | None = None
        self._place_of_tails: Place | None = None
        self._hurry = threading.local()
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without a client; after a fork, the client belongs to the parent."""
        self._opening = threading.Lock()
        self._place = self._place_of_tails = None

    @property
    def place(self) -> Place:
        """The collections of this store."""
        place = self._place
        if place is None:
            with self._opening:
                place = self._place = self._place or self.place_in(self._connect())
        return place

    @property
    def place_of_tails(self) -> Place:
        """The collections for reads that wait for signals, each of which permanently holds a connection."""
        if not self._is_bounded:
            return self.place
        place = self._place_of_tails
        if place is None:
            with self._opening:
                found = self._place_of_tails or self.place_in(self._connect(maxPoolSize=0))
                place = self._place_of_tails = found
        return place

    def place_in(self, client: AnyClient, session: AnySession | None = None) -> Place:
        """Return the collections through this client, with reads from the primary."""
        options = {"codec_options": CODECS, "read_preference": ReadPreference.PRIMARY}
        return Place(database_of(client, self.address.database, **options), session)

    @property
    def outside(self) -> Server:
        """This server: nothing here is part of a caller's transaction."""
        return self

    def now(self) -> int:
        """Return the server's clock."""
        answer = self.call(lambda on, _again: on.database.client.admin.command("hello", codec_options=CODECS))
        return self.at(answer["localTime"])

    def at(self, date: DatetimeMS) -> int:
        """Return a date of the server's clock as a stored time."""
        return micros(date) + int(self.clock_offset * SECOND)

    def call(self, work: Callable[[Place, bool], T], seconds: float | None = None) -> T:
        """Do the work, and repeat it while that is safe and may help; its second argument: True after a lost reply."""
        started, pause, again = time.monotonic(), 0.01, False
        seconds = calls.CALL_SECONDS if seconds is None else seconds
        if (until := getattr(self._hurry, "until", None)) is not None:
            seconds = min(seconds, until - started)
        while True:
            place = self.place
            try:
                with pymongo.timeout(max(0.001, seconds - (time.monotonic() - started))):
                    return work(place, again)
            except DocumentTooLarge:
                raise InvalidInput(TOO_LARGE) from None
            except PyMongoError as error:
                fault = fault_of(without_documents(error))
                if isinstance(error, InvalidOperation) and place is not self._place:  # another thread has closed it
                    fault = Fault.LOST
                if is_too_large(error):
                    raise InvalidInput(TOO_LARGE) from None
                if fault is Fault.OTHER:
                    raise
                if fault is Fault.LOST:
                    again = True
                if fault is Fault.HOPELESS or time.monotonic() - started + pause > seconds:
                    raise self.unavailable(error) from error
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 2, 0.5)

    @contextmanager
    def hurried(self, seconds: float) -> Iterator[None]:
        """Let all calls of this thread in the block end within `seconds`."""
        self._hurry.until = time.monotonic() + seconds
        try:
            yield
        finally:
            del self._hurry.until

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Convert driver errors in the block to errors of this package."""
        try:
            yield
        except PyMongoError as error:
            if fault_of(without_documents(error)) is Fault.OTHER:
                raise
            raise self.unavailable(error) from error

    def unavailable(self, error: PyMongoError) -> StoreUnavailable:
        """Return the error to raise when retrying does not help."""
        reason = self.address.without_password(reason_of(error))
        message = f"can't use the store {self.address.shown}: {reason}; {way_out(error)}"
        return StoreUnavailable(message, lasting=fault_of(error) is Fault.HOPELESS)

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
        places = self._place, self._place_of_tails
        self._place = self._place_of_tails = None
        for place in filter(None, places):
            place.database.client.close()

    def _connect(self, **options: Any) -> MongoClient[Document]:
        try:
            return MongoClient(self.address.url, connect=False, **self._options, **options)
        except ConfigurationError as error:  # DNS does not know the host of mongodb+srv
            raise self.unavailable(error) from error


def across(server: Access, arms: Sequence[Sequence[Document]]) -> Iterator[Document]:
    """Yield the jobs that these aggregations find, in undefined order, many aggregations per command."""
    for start in range(0, len(arms), ARMS):
        first, *rest = arms[start : start + ARMS]

        def work(
            on: Place, _again: bool, first: Sequence[Document] = first, rest: list[Sequence[Document]] = rest
        ) -> list[Document]:
            others = ({"$unionWith": {"coll": on.jobs.name, "pipeline": list(one)}} for one in rest)
            return on.documents(on.jobs, *first, *others)

        yield from server.call(work)


def patience_of(client: MongoClient[Document]) -> float:
    """Return how many seconds the server may wait with an answer, well before the client assumes it is lost."""
    limit = client.options.pool_options.socket_timeout
    return PATIENCE if limit is None else min(PATIENCE, max(limit - calls.CALL_SECONDS, limit / 2))


def _given(url: str) -> dict[str, object]:
    """Return the options of the URL, by their names in lower case; InvalidInput for an invalid URL."""
    try:
        # Without the DNS lookup of +srv.
        given = parse_uri(url.replace("mongodb+srv://", "mongodb://", 1), warn=False)["options"]
    except (InvalidURI, ConfigurationError, ValueError, InvalidOperation) as error:
        raise InvalidInput(f"the URL of the store is not valid: {error}") from None
    if given.get("w") == 0:
        raise InvalidInput("w=0 in the URL of the store: a queue needs acknowledged writes; remove it")
    return {name.lower(): value for name, value in given.items()}
