"""From events to jobs: one for each subscription, all of a batch stored in one step.

A store whose pushes are not atomic across queues takes them by way of its stage: (1) the jobs are staged, unseen, (2)
they are published. A death before (2) leaves nothing but a stage that is forgotten; after (2) its outbox recovery
stores the rest.

The id of a job follows from the id of its event and the name of its subscription. So an event that is pushed again
under its id, or brought to a late subscriber, gives no subscriber a second job.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from stanchion.context.context import Context
from stanchion.core.ids import beside, new_id
from stanchion.errors import InvalidInput
from stanchion.jobs.call import encoded_call
from stanchion.jobs.insert import announce, insert, make_ready
from stanchion.jobs.options import Push, checked
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import ValueChange
from stanchion.topics.filters import meets
from stanchion.topics.terms import Terms, TopicTerms

EVENT, TOPIC = "x-event", "x-topic"
"""The headers of each copy: the id that all copies of an event share, and the name of its topic."""

_KIND = "topic-push"
_NAMES = 64
"""Names of the values that mark a publication as done; pushes that choose the same one take turns."""


class Copy(NamedTuple):
    """The job of one event for one subscription."""

    event: str
    subscription: str
    job: NewJob


class FanOut:
    """Makes the jobs of the events of one topic."""

    def __init__(self, context: Context, topic: str, terms: TopicTerms) -> None:
        self._context, self._topic, self.terms = context, topic, terms
        self._filtered = any(one.filter for one in terms.subscriptions.values())

    def copies(self, event: str, push: Push) -> Iterator[Copy]:
        """Yield the copies of an event. Raises InvalidInput for a payload or options that are wrong."""
        codec, declared = self._context.codec, self._context.declared_rate
        fields = checked(push.options, codec, declared=declared)  # also for an event without subscribers
        headers = dict(push.options.get("headers") or {})
        if reserved := {EVENT, TOPIC} & headers.keys():
            raise InvalidInput(f"the header {min(reserved)} is set by the topic; choose another name")
        seen = self._seen(push, headers, fields) if self._filtered else {}
        options = {**push.options, "headers": {**headers, EVENT: event, TOPIC: self._topic}}
        payload = codec.encode(push.payload)
        call = None
        shared = None if "rate" in options else checked(options, codec, declared=declared)
        for name, its in self.terms.subscriptions.items():
            if not meets(seen, its.filter):
                continue
            if its.task is not None and call is None:
                call = encoded_call(codec, (push.payload,), {})
            text = payload if its.task is None or call is None else call
            own = shared
            if own is None:
                own = checked(options, codec, queue=its.queue, task=its.task, declared=declared)
            job_id = copy_id(event, self._topic, name)
            yield Copy(event, name, NewJob(job_id, its.queue, text, its.task, **_with_defaults(its, own)))

    def _seen(self, push: Push, headers: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
        """Return the fields that filters compare, as they are stored."""
        plain = self._context.codec.plain
        return {
            "payload": self._context.codec.decode(plain(push.payload, "payload")),
            "headers": self._context.codec.decode(plain(headers, "headers")),
            "tenant": fields.get("tenant"),
            "priority": fields.get("priority", 0),
        }


def _with_defaults(its: Terms, given: Mapping[str, object]) -> dict[str, Any]:
    defaults = dict(its.options)
    if "run_at" in given:
        defaults.pop("delay", None)
    return {**defaults, **given}


def copy_id(event: str, topic: str, subscription: str) -> str:
    """Return the id of the job of an event for a subscription: the same in every release, for events pushed again."""
    return beside(event, _distance(topic, subscription))


@lru_cache(maxsize=10_000)
def _distance(topic: str, subscription: str) -> int:
    """Return the distance between the ids of events and of a subscription's jobs."""
    return int.from_bytes(blake2b(json.dumps([topic, subscription]).encode(), digest_size=9).digest())


def store_copies(context: Context, copies: Sequence[Copy], tx: object = None) -> set[str]:
    """Store copies in one step, or in the transaction `tx`; return the ids whose key was taken."""
    jobs = [copy.job for copy in copies]
    if not jobs:
        return set()
    if tx is not None or _pushed_in_one_step(context.store, jobs):
        pushed = insert(context, jobs, tx)
        return {job.id for job, there in zip(jobs, pushed, strict=True) if there.duplicate}
    store = make_ready(context, jobs)
    _publish(store, jobs)
    keyed = [job.id for job in jobs if job.key is not None]
    taken = set(keyed) - store.fetch(keyed).keys() if keyed else set()
    announce(context, [job for job in jobs if job.id not in taken])
    return taken


def _pushed_in_one_step(store: Store, jobs: Sequence[NewJob]) -> bool:
    able = store.capabilities
    if able.atomic_batches or len({job.queue for job in jobs}) == 1:
        return True
    return able.atomic_pushes and all(job.key is None or job.on_duplicate == "return" for job in jobs)


def _publish(store: Store, jobs: Sequence[NewJob]) -> None:
    """Stage the jobs and publish them: all are stored, or none."""
    while True:
        write, name = new_id(), str(random.randrange(_NAMES))  # noqa: S311 - spreading load
        store.stage(write, write, jobs)
        version = next((value.version for value in store.values(_KIND, [name])), 0)
        done = ValueChange(_KIND, name, write, version)
        if store.publish(Publication(write, ((write, len(jobs)),), done)):
            return
        # After a lost reply another process may have continued it; else another publication took the name first.
        if any(value.text == write for value in store.values(_KIND, [name])):
            return
