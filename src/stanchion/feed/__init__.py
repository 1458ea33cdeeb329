"""A feed of job events, derived from the stored jobs."""

from stanchion.feed.event import FeedEvent
from stanchion.feed.feed import Feed

__all__ = ["Feed", "FeedEvent"]
