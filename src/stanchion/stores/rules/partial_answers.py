"""Partial results of a call that only some of several databases answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stanchion.errors import StoreUnavailable


class ShardUnavailable(StoreUnavailable):
    """A shard of several did not answer.

    `answers`: the available answers, by their positions in the request.
    """

    def __init__(self, message: str, answers: Mapping[int, Any], *, lasting: bool = False) -> None:
        super().__init__(message, lasting=lasting)
        self.answers = answers
