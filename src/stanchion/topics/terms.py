"""The stored terms of a topic's subscriptions: one versioned value for each topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stanchion.stores.records.values import VersionedValue

KIND = "topic"
"""The kind of the versioned values."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Stored terms of a subscription. `task`: its jobs call this task; None: they are plain payloads.

    `filter`: see `topics.filters`. `options`: options of its jobs where the event has none, as fields of a job.
    """

    queue: str
    task: str | None = None
    filter: Mapping[str, object] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicTerms:
    """The subscriptions of a topic, by name, and what code declared of them last, which need not be in force."""

    subscriptions: Mapping[str, Terms] = field(default_factory=dict)
    declared: Mapping[str, Terms] = field(default_factory=dict)

    def subscribed(self, name: str, terms: Terms) -> TopicTerms:
        """Return this with a subscription."""
        return replace(self, subscriptions={**self.subscriptions, name: terms})

    def unsubscribed(self, name: str) -> TopicTerms:
        """Return this without a subscription."""
        return replace(self, subscriptions={one: its for one, its in self.subscriptions.items() if one != name})

    def as_declared(self, declared: Mapping[str, Terms]) -> TopicTerms:
        """Return this with those declarations that are new; an unchanged one leaves what an operator did."""
        new = {name: terms for name, terms in declared.items() if self.declared.get(name) != terms}
        return TopicTerms({**self.subscriptions, **new}, {**self.declared, **new})


def text_of(terms: TopicTerms) -> str | None:
    """Return the stored text; None if there is nothing to store."""
    if not terms.subscriptions and not terms.declared:
        return None
    return json.dumps(
        {
            part: {name: _shown(one) for name, one in its.items()}
            for part, its in (("subscriptions", terms.subscriptions), ("declared", terms.declared))
        }
    )


def _shown(one: Terms) -> dict[str, object]:
    return {"queue": one.queue, "task": one.task, "filter": one.filter, "options": one.options}


def terms_in(value: VersionedValue | None) -> TopicTerms:
    """Return the terms in a stored value."""
    if value is None:
        return TopicTerms()
    parts = json.loads(value.text)
    return TopicTerms(
        *({name: Terms(**one) for name, one in parts[part].items()} for part in ("subscriptions", "declared"))
    )
