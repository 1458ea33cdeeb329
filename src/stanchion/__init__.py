"""Stanchion: the job queue inside the database you already run.

Each name is imported at its first use, so that a program loads only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stanchion.app import Stanchion
    from stanchion.app.blueprint import Tasks
    from stanchion.core.retry import Retry
    from stanchion.core.text.redaction import redacted
    from stanchion.core.types import Transaction
    from stanchion.cron.schedule import Schedule
    from stanchion.errors import (
        ArgumentMisfit,
        BatchLeasesLost,
        CannotJoin,
        DuplicateKey,
        FlowCancelled,
        FlowClosed,
        FlowFailed,
        FlowNotFound,
        InvalidInput,
        JobCancelled,
        JobFailed,
        JobNotFound,
        LeaseLost,
        MissingExtra,
        NotPermitted,
        PayloadMisfit,
        ResultMisfit,
        ResultTimeout,
        SchemaMismatch,
        SchemaRefused,
        SearchTooWide,
        StanchionError,
        StoreUnavailable,
        TaskInterrupted,
        TaskTimeout,
        UnknownTask,
    )
    from stanchion.feed.event import FeedEvent
    from stanchion.feed.feed import Feed
    from stanchion.flows.event_group import EventGroup
    from stanchion.flows.flow_failure import FlowFailure
    from stanchion.flows.handle import FlowHandle, FlowState
    from stanchion.flows.parts import Signature, barrier, chain, group
    from stanchion.jobs.handle import JobHandle
    from stanchion.jobs.job import Job, JobState
    from stanchion.jobs.options import Push
    from stanchion.jobs.outcome import Bury, Cancel, RetryAfter, Snooze
    from stanchion.jobs.reservation import Reservation
    from stanchion.pipelines.pipeline import Pipeline
    from stanchion.pipelines.send import Send
    from stanchion.pipelines.tables.table import Table
    from stanchion.queues.consumer import Consumer
    from stanchion.queues.queue import Queue
    from stanchion.tasks.current import current_job
    from stanchion.tasks.middleware import Attempt
    from stanchion.tasks.task import Task
    from stanchion.topics.topic import Event, Lag, Subscription, Topic
    from stanchion.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 - in groups
    # The app, its queues and its tasks
    "Consumer",
    "Push",
    "Queue",
    "Retry",
    "Schedule",
    "Stanchion",
    "Task",
    "Tasks",
    "Transaction",
    "Worker",
    # Jobs
    "Attempt",
    "Job",
    "JobHandle",
    "JobState",
    "Reservation",
    "current_job",
    # Outcomes, which a task returns or raises
    "Bury",
    "Cancel",
    "RetryAfter",
    "Snooze",
    # Flows
    "EventGroup",
    "FlowFailure",
    "FlowHandle",
    "FlowState",
    "Signature",
    "barrier",
    "chain",
    "group",
    # Pipelines
    "Pipeline",
    "Send",
    "Table",
    # Topics and feeds
    "Event",
    "Feed",
    "FeedEvent",
    "Lag",
    "Subscription",
    "Topic",
    # Hiding values
    "redacted",
    # Errors
    "ArgumentMisfit",
    "BatchLeasesLost",
    "CannotJoin",
    "DuplicateKey",
    "FlowCancelled",
    "FlowClosed",
    "FlowFailed",
    "FlowNotFound",
    "InvalidInput",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "LeaseLost",
    "MissingExtra",
    "NotPermitted",
    "PayloadMisfit",
    "ResultMisfit",
    "ResultTimeout",
    "SchemaMismatch",
    "SchemaRefused",
    "SearchTooWide",
    "StanchionError",
    "StoreUnavailable",
    "TaskInterrupted",
    "TaskTimeout",
    "UnknownTask",
    "__version__",
]

_MODULES = {
    "app": ["Stanchion"],
    "core.text.redaction": ["redacted"],
    "core.retry": ["Retry"],
    "core.types": ["Transaction"],
    "cron.schedule": ["Schedule"],
    "errors": [
        "ArgumentMisfit",
        "BatchLeasesLost",
        "CannotJoin",
        "DuplicateKey",
        "FlowCancelled",
        "FlowClosed",
        "FlowFailed",
        "FlowNotFound",
        "InvalidInput",
        "JobCancelled",
        "JobFailed",
        "JobNotFound",
        "LeaseLost",
        "MissingExtra",
        "NotPermitted",
        "PayloadMisfit",
        "ResultMisfit",
        "ResultTimeout",
        "SchemaMismatch",
        "SchemaRefused",
        "SearchTooWide",
        "StanchionError",
        "StoreUnavailable",
        "TaskInterrupted",
        "TaskTimeout",
        "UnknownTask",
    ],
    "feed.event": ["FeedEvent"],
    "feed.feed": ["Feed"],
    "flows.event_group": ["EventGroup"],
    "flows.flow_failure": ["FlowFailure"],
    "flows.handle": ["FlowHandle", "FlowState"],
    "flows.parts": ["Signature", "barrier", "chain", "group"],
    "jobs.handle": ["JobHandle"],
    "jobs.job": ["Job", "JobState"],
    "jobs.options": ["Push"],
    "jobs.outcome": ["Bury", "Cancel", "RetryAfter", "Snooze"],
    "jobs.reservation": ["Reservation"],
    "pipelines.pipeline": ["Pipeline"],
    "pipelines.send": ["Send"],
    "pipelines.tables.table": ["Table"],
    "queues.consumer": ["Consumer"],
    "queues.queue": ["Queue"],
    "app.blueprint": ["Tasks"],
    "tasks.middleware": ["Attempt"],
    "tasks.current": ["current_job"],
    "tasks.task": ["Task"],
    "topics.topic": ["Event", "Lag", "Subscription", "Topic"],
    "worker.worker": ["Worker"],
}
"""The names of the public API by their modules."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"stanchion.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    of_module = (name for name in globals() if name.startswith("__"))
    return sorted({*of_module, *__all__, "alembic", "django", "middleware", "spark"})
