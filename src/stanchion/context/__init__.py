"""State shared by the parts of one app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stanchion.context.context import Context


class HasContext(Protocol):
    """An app, another object of the API that belongs to one, or the context itself."""

    @property
    def _context(self) -> Context: ...


def context_of(one: HasContext) -> Context:
    """Return the context of an app, or of an object made by it, which is not part of their API."""
    return one._context
