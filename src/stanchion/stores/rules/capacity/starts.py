"""Pushes of jobs that start running immediately."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import Pushed


def claim_of(claim: Claim, stored: Collection[str]) -> Claim | None:
    """Return the claim, restricted to jobs that the push has stored; None if there are none."""
    ids = tuple(one for one in claim.ids if one[0] in stored)
    return claim._replace(ids=ids, repeat=False) if ids else None


def with_tokens(pushed: Sequence[Pushed], claim: Claim, running: Collection[str]) -> list[Pushed]:
    """Return the results of a push; `running`: the jobs that are reserved under the token of its claim."""
    return [one._replace(token=claim.token) if one.id in running and not one.duplicate else one for one in pushed]
