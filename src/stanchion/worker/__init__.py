"""What runs jobs: claimer, runners, event loop, finisher, heartbeat, reaper, and the processes around them."""

from stanchion.worker.worker import Worker

__all__ = ["Worker"]
