"""The failure of a part of a flow, as its `on_failure` call receives it."""

from __future__ import annotations

from typing import NamedTuple


class FlowFailure(NamedTuple):
    """The member whose failure made a part of a flow fail."""

    task: str | None
    """The name of its task; None for a payload without a task, and if the job is no longer known."""
    job: str | None
    """The id of the failed job; None if its end is no longer known."""
    error: str
    """The last error, as its type and message, or `cancelled`."""
