"""The app: one store, its queues and its tasks. Each module holds the calls of one area; `Stanchion` joins them."""

from stanchion.app.app import Stanchion, app_of
from stanchion.app.running import on_store, tick

__all__ = ["Stanchion", "app_of", "on_store", "tick"]
