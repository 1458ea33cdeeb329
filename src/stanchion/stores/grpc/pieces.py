"""Calls whose request or reply may be larger than a message: made in smaller pieces then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.stores.grpc.client.calls import Calls, ReplyTooLarge, RequestTooLarge
from stanchion.stores.records.calls import seconds_for
from stanchion.stores.records.flows import MemberEnd
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Page, Query

SCAN_SECONDS = 120.0
"""For a query that may search all jobs."""


class Pieces:
    """Halves arguments and requests until they fit."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def all(self, verb: str, name: str, items: Sequence[object], **arguments: object) -> list[Any]:
        """Call a verb with items, the argument `name`, that has a result for each; each piece is a separate step."""
        try:
            found: list[Any] = self._calls.make(verb, seconds_for(len(items)), **{name: items}, **arguments)
        except RequestTooLarge:
            if len(items) == 1:
                raise
            half = len(items) // 2
            first = self.all(verb, name, items[:half], **arguments)
            return first + self.all(verb, name, items[half:], **arguments)
        return found or []

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return the jobs that are live or in history, by id."""
        try:
            found: dict[str, JobRow] = self._calls.make("fetch", seconds_for(len(ids)), ids=ids)
        except ReplyTooLarge as error:
            if len(ids) == 1:
                raise _beyond(error) from None
            half = len(ids) // 2
            return self.fetch(ids[:half]) | self.fetch(ids[half:])
        return found

    def select(self, query: Query) -> Page:
        """Return a page of jobs; a short one with a cursor if they are large."""
        while True:
            try:
                page: Page = self._calls.make("select", SCAN_SECONDS, query=query)
            except ReplyTooLarge as error:
                query = replace(query, limit=_half(query.limit, error))
            else:
                return page

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return up to `limit` member ends of a node, by index."""
        try:
            ends: list[MemberEnd] = self._calls.make("flow_ends", node=node, after=after, limit=limit)
        except ReplyTooLarge as error:
            half = _half(limit, error)
            first = self.flow_ends(node, after, half)
            return first if len(first) < half else first + self.flow_ends(node, first[-1].index, limit - half)
        return ends


def _half(limit: int, error: ReplyTooLarge) -> int:
    if limit <= 1:
        raise _beyond(error) from None
    return limit // 2


def _beyond(error: object) -> InvalidInput:
    return InvalidInput(f"a single job is too large to be read through a manager: {error}; read it from the database")
