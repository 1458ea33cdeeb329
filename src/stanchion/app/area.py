"""What the areas of the app share: the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stanchion.context.context import Context


class Area:
    """A group of calls of `Stanchion`. It has no state of its own: the app's `context` holds all."""

    _context: Context
