"""A feed of what happens to jobs, read from what the store keeps of them."""

from stanchion.feed.event import FeedEvent
from stanchion.feed.feed import Feed

__all__ = ["Feed", "FeedEvent"]
