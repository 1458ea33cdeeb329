"""Waiting: all waiters of an app share one listener and one look at the store for each kind of answer."""

from stanchion.waits.keeper import Waits

__all__ = ["Waits"]
