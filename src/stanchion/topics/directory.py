"""The subscriptions of topics in the store: cached for a second, changed by compare-and-set."""

from __future__ import annotations

import time
from collections.abc import Callable

from stanchion.context.context import Context
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.values import VersionedValue
from stanchion.topics.terms import KIND, Terms, TopicTerms, terms_in, text_of

CACHE_SECONDS = 1.0
"""Seconds for which a process caches the subscriptions of a store that several processes share."""

UNDER_WAY = 0.5
"""Seconds for a push that has just begun."""

MOST_SUBSCRIPTIONS = 1000
MOST_CHARACTERS = 4 * 1024 * 1024
"""Characters that the stored terms of a topic may take."""


class TopicDirectory:
    """The terms of one topic, as one process sees them, and the subscriptions that its code declares."""

    def __init__(self, context: Context, topic: str) -> None:
        self._context, self._topic = context, topic
        self._declared: dict[str, Terms] = {}
        self._stored_in: Store | None = None
        self._read: tuple[float, Store, TopicTerms] | None = None
        self._changed_at = 0.0
        self._parsed: tuple[VersionedValue | None, TopicTerms] = None, TopicTerms()

    def __getstate__(self) -> dict[str, object]:
        """Leave out the store, for other processes."""
        return {**self.__dict__, "_stored_in": None, "_read": None}

    def declare(self, name: str, terms: Terms) -> None:
        """Note a subscription, to be stored at the first use of the topic or of its queue. Raises InvalidInput."""
        both = subscribed(TopicTerms(self._declared), self._topic, name, terms)
        self._declared = dict(both.subscriptions)
        self._stored_in = None
        self._context.registry.declared_topics[self._topic] = self

    def store_declared(self, store: Store) -> None:
        """Store declared subscriptions whose declaration has changed, once for each store."""
        if self._declared and self._stored_in is not store:
            for terms in self._declared.values():
                check_semaphores(self._context, terms)
            self._change(store, lambda known: known.as_declared(self._declared))
            self._stored_in = store

    def now(self) -> TopicTerms:
        """Return the terms as they are stored now."""
        store, began = self._context.store, time.monotonic()
        value = next(iter(store.values(KIND, [self._topic])), None)
        parsed, terms = self._parsed
        if value != parsed:
            terms = terms_in(value)
            self._parsed = value, terms
        # A slow read must not replace a later one, nor bring back what this process has changed meanwhile.
        if began >= self._changed_at and (self._read is None or began >= self._read[0] or store is not self._read[1]):
            self._read = began, store, terms
        return terms

    def recent(self, *, in_transaction: bool = False) -> TopicTerms:
        """Return the terms as stored up to `CACHE_SECONDS` ago, plus those declared in code.

        A caller's open transaction may block other writers, so nothing is stored for it.
        """
        store, read = self._context.store, self._read
        if not in_transaction:
            self.store_declared(store)
        cached = read is not None and read[1] is store and store.capabilities.processes
        terms = read[2] if cached and read and time.monotonic() - read[0] <= CACHE_SECONDS else self.now()
        return terms if self._stored_in is store or not self._declared else terms.as_declared(self._declared)

    def change(self, change: Callable[[TopicTerms], TopicTerms]) -> TopicTerms:
        """Change the terms; return the former ones."""
        self.store_declared(self._context.store)
        return self._change(self._context.store, change)

    def wait_until_known(self) -> None:
        """Wait until all processes push by the terms as they are stored; a push may be under way for longer."""
        if self._context.store.capabilities.processes:
            time.sleep(max(0.0, CACHE_SECONDS) + UNDER_WAY)

    def _change(self, store: Store, change: Callable[[TopicTerms], TopicTerms]) -> TopicTerms:
        while True:
            value = next(iter(store.values(KIND, [self._topic])), None)
            before = terms_in(value)
            after = change(before)
            if after == before:
                return before
            text = text_of(after)
            if text is not None and len(text) > MOST_CHARACTERS:
                raise InvalidInput(
                    f"the subscriptions of topic {self._topic!r} would take {len(text):,} characters, more than the "
                    f"limit of {MOST_CHARACTERS:,}; shorten their filters"
                )
            if store.compare_and_set(KIND, self._topic, text, 0 if value is None else value.version):
                self._read, self._changed_at = None, time.monotonic()
                return before


def check_semaphores(context: Context, terms: Terms) -> None:
    """Raise InvalidInput if the jobs of a subscription need an unknown semaphore, which would stop every push."""
    if "limits" in terms.options:
        context.semaphores.check([NewJob("", terms.queue, "", limits=terms.options["limits"])], context.store)


def subscribed(terms: TopicTerms, topic: str, name: str, its: Terms) -> TopicTerms:
    """Return the terms of a topic with a new subscription. Raises InvalidInput unless its queue is unused."""
    for other, known in terms.subscriptions.items():
        if other != name and known.queue == its.queue:
            raise InvalidInput(
                f"subscription {other!r} of topic {topic!r} already uses the queue {its.queue!r}, so it would get each "
                f"event twice; give {name!r} another queue, with queue="
            )
    after = terms.subscribed(name, its)
    if len(after.subscriptions) > MOST_SUBSCRIPTIONS:
        raise InvalidInput(f"topic {topic!r} has {MOST_SUBSCRIPTIONS:,} subscriptions, which is the limit")
    return after
