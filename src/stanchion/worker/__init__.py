"""The worker and its parts: claimer, runners, event loops, finisher, heartbeat, reaper, scheduler."""

from stanchion.worker.worker import Worker

__all__ = ["Worker"]
