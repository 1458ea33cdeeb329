"""Stanchion: the job queue inside the database you already run."""

from stanchion.app import Stanchion
from stanchion.cron import Schedule
from stanchion.errors import (
    ArchiveBusy,
    BatchNotKept,
    CannotJoin,
    DuplicateKey,
    FlowCancelled,
    FlowClosed,
    FlowFailed,
    FlowNotFound,
    ForeignCheckpoint,
    InvalidInput,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    LeasesLost,
    MissingExtra,
    ResultTimeout,
    SchemaMismatch,
    StagedJobsLost,
    StanchionError,
    StoreUnavailable,
    StreamStopped,
    StreamTaken,
    TaskTimeout,
    UnknownTask,
)
from stanchion.flow import Signature, barrier, chain, group
from stanchion.flow_events import EventGroup
from stanchion.flow_handle import FlowHandle, FlowState
from stanchion.job import Job, JobHandle, JobState
from stanchion.outcome import Bury, Cancel, RetryAfter, Snooze
from stanchion.pipeline import Pipeline, Send
from stanchion.queue import Push, Queue
from stanchion.reservation import Reservation
from stanchion.retry import Retry
from stanchion.task import Task
from stanchion.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "ArchiveBusy",
    "BatchNotKept",
    "Bury",
    "Cancel",
    "CannotJoin",
    "DuplicateKey",
    "EventGroup",
    "FlowCancelled",
    "FlowClosed",
    "FlowFailed",
    "FlowHandle",
    "FlowNotFound",
    "FlowState",
    "ForeignCheckpoint",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobState",
    "LeaseLost",
    "LeasesLost",
    "MissingExtra",
    "Pipeline",
    "Push",
    "Queue",
    "Reservation",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Schedule",
    "SchemaMismatch",
    "Send",
    "Signature",
    "Snooze",
    "StagedJobsLost",
    "Stanchion",
    "StanchionError",
    "StoreUnavailable",
    "StreamStopped",
    "StreamTaken",
    "Task",
    "TaskTimeout",
    "UnknownTask",
    "Worker",
    "__version__",
    "barrier",
    "chain",
    "group",
]
