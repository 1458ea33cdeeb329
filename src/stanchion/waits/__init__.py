"""Waiting for jobs and results: all waiters of an app share one listener, and one poll for each kind of answer."""

from stanchion.waits.coordinator import Waits

__all__ = ["Waits"]
