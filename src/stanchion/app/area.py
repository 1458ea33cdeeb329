"""What the areas of the app share: the context."""

from __future__ import annotations

from stanchion.context.context import Context


class Area:
    """A group of calls of `Stanchion`. It has no state of its own: the app's `context` holds all."""

    context: Context
