"""Stanchion: the job queue inside the database you already run."""

from stanchion.app import Stanchion
from stanchion.core.redaction import redacted
from stanchion.core.retry import Retry
from stanchion.cron.schedule import Schedule
from stanchion.errors import (
    ArchiveBusy,
    ArgumentMisfit,
    BatchLeasesLost,
    BatchNotKept,
    CannotJoin,
    DuplicateKey,
    FlowCancelled,
    FlowClosed,
    FlowFailed,
    FlowNotFound,
    ForeignCheckpoint,
    HistoryPurged,
    InvalidInput,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobsMisfit,
    LeaseLost,
    LeasesLost,
    MissingExtra,
    NotPermitted,
    PayloadMisfit,
    ResultMisfit,
    ResultTimeout,
    SchemaMismatch,
    SchemaRefused,
    SearchTooWide,
    StagedJobsLost,
    StanchionError,
    StoreUnavailable,
    StreamStopped,
    StreamTaken,
    TableRefused,
    TaskInterrupted,
    TaskTimeout,
    UnknownTask,
)
from stanchion.feed import Feed, FeedEvent
from stanchion.flows.event_group import EventGroup
from stanchion.flows.failure import FlowFailure
from stanchion.flows.handle import FlowHandle, FlowState
from stanchion.flows.parts import Signature, barrier, chain, group
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.options import Push
from stanchion.jobs.outcome import Bury, Cancel, RetryAfter, Snooze
from stanchion.jobs.reservation import Reservation
from stanchion.pipelines import Pipeline, Send
from stanchion.queues.consumer import Consumer
from stanchion.queues.queue import Queue
from stanchion.tasks.task import Task
from stanchion.topics.topic import Event, Lag, Subscription, Topic
from stanchion.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "ArchiveBusy",
    "ArgumentMisfit",
    "BatchLeasesLost",
    "BatchNotKept",
    "Bury",
    "Cancel",
    "CannotJoin",
    "Consumer",
    "DuplicateKey",
    "Event",
    "EventGroup",
    "Feed",
    "FeedEvent",
    "FlowCancelled",
    "FlowClosed",
    "FlowFailed",
    "FlowFailure",
    "FlowHandle",
    "FlowNotFound",
    "FlowState",
    "ForeignCheckpoint",
    "HistoryPurged",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobState",
    "JobsMisfit",
    "Lag",
    "LeaseLost",
    "LeasesLost",
    "MissingExtra",
    "NotPermitted",
    "PayloadMisfit",
    "Pipeline",
    "Push",
    "Queue",
    "Reservation",
    "ResultMisfit",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Schedule",
    "SchemaMismatch",
    "SchemaRefused",
    "SearchTooWide",
    "Send",
    "Signature",
    "Snooze",
    "StagedJobsLost",
    "Stanchion",
    "StanchionError",
    "StoreUnavailable",
    "StreamStopped",
    "StreamTaken",
    "Subscription",
    "TableRefused",
    "Task",
    "TaskInterrupted",
    "TaskTimeout",
    "Topic",
    "UnknownTask",
    "Worker",
    "__version__",
    "barrier",
    "chain",
    "group",
    "redacted",
]
