"""Stanchion: the job queue inside the database you already run."""

from stanchion.app import Stanchion
from stanchion.cron import Schedule
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
    "Bury",
    "Cancel",
    "EventGroup",
    "FlowHandle",
    "FlowState",
    "Job",
    "JobHandle",
    "JobState",
    "Pipeline",
    "Push",
    "Queue",
    "Reservation",
    "Retry",
    "RetryAfter",
    "Schedule",
    "Send",
    "Signature",
    "Snooze",
    "Stanchion",
    "Task",
    "Worker",
    "__version__",
    "barrier",
    "chain",
    "group",
]
