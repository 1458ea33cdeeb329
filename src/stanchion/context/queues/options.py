"""The settings of queues as keyword arguments, for type checkers. `context.queues.settings` checks their values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from stanchion.schemas.kinds import Schema


class StationQueueOptions(TypedDict, total=False):
    """The settings of the queue of a station.

    `max_rate`: starts per second; `max_running`: jobs that run at once; `lanes`, `lanes_per_tenant`; `history_ttl`:
    seconds for which finished jobs are kept, or a mapping from done, dead, cancelled and default to these, or to texts
    such as 7d, which gives those kept for less `history_ttl_done`, `history_ttl_dead` or `history_ttl_cancelled`;
    `history_max`: the number of finished jobs that are kept; `dead_letter`: the queue that dead jobs move to;
    `lease`: seconds of a reservation; `paused`; `expires`: seconds without use after which the queue is deleted, with
    `expires_with_jobs` even if it has jobs; `ordered`, `ordered_by`; `partitions`; `jobs_expire`: seconds after their
    push until jobs expire that do not say when.
    """

    paused: bool
    max_rate: float | None
    max_running: int | None
    lanes: int
    lanes_per_tenant: int
    history_ttl: float | timedelta | Mapping[str, float | timedelta | str | None]
    history_ttl_done: float | timedelta | None
    history_ttl_dead: float | timedelta | None
    history_ttl_cancelled: float | timedelta | None
    history_max: int | None
    dead_letter: str | None
    lease: float | timedelta
    expires: float | timedelta | None
    expires_with_jobs: bool
    ordered: bool
    ordered_by: Literal["tenant"] | None
    partitions: int
    jobs_expire: float | timedelta | None


class QueueOptions(StationQueueOptions, total=False):
    """The settings of a queue: those above, and two that a station has of its own.

    `timeout`: seconds that an attempt may run; `schema`: of the payloads, in DDL or a class with fields.
    """

    timeout: float | timedelta | None
    schema: str | type[object] | Schema | None
