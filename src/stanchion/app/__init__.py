"""The app: one store, its queues and its tasks. Each module holds the calls of one area; `Stanchion` joins them."""

from stanchion.app.app import Stanchion

__all__ = ["Stanchion"]
