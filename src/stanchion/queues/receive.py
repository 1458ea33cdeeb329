"""Receiving jobs from a queue: one claim, then a wait."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future

from stanchion.context.context import Context
from stanchion.core.ids import new_token
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.waits.pop import pop
from stanchion.waits.waiter import Waiter


class Receive:
    """One call that reserves or pops jobs, waiting up to `wait` seconds for the first.

    `wanted`: the claim to make; each try gets its own token.
    """

    def __init__(self, context: Context, wanted: Claim, wait: float, *, pops: bool = False) -> None:
        self._context, self._wanted, self._wait, self._pops = context, wanted, wait, pops
        self._deadline = time.monotonic() + wait
        self._lost_claim: Claim | None = None

    def rows(self) -> list[JobRow]:
        """Return the jobs, or none at the deadline."""
        rows = self._try()
        return self._waiter(None).result() if rows is None else rows

    async def arows(self) -> list[JobRow]:
        """Return the jobs, waiting on the event loop."""
        trying = self._context.calls.submit(self._try)
        try:
            rows = await asyncio.wrap_future(trying)
        except BaseException:
            trying.add_done_callback(self._return)
            raise
        return await self._waiter(asyncio.get_running_loop()).answer() if rows is None else rows

    def _try(self) -> list[JobRow] | None:
        """Claim once. Return None to wait: for due jobs, or for a store that does not answer."""
        self._context.upkeep.nudge()
        claim = self._wanted._replace(token=new_token())
        try:
            store = self._context.store
            self._context.declare(claim.queue)
            rows = pop(store, claim).rows if self._pops else _claimed(store, claim)
        except StoreUnavailable as error:
            if error.lasting or self._wait <= 0:
                raise
            self._lost_claim = claim
            return None
        return rows if rows or self._wait <= 0 else None

    def _waiter(self, loop: asyncio.AbstractEventLoop | None) -> Waiter[list[JobRow]]:
        waits = self._context.waits
        return waits.for_work(self._wanted, self._deadline, loop, pops=self._pops, lost_claim=self._lost_claim)

    def _return(self, trying: Future[list[JobRow] | None]) -> None:
        """Give back the jobs of a try whose caller was cancelled meanwhile."""
        if not trying.cancelled() and trying.exception() is None and (rows := trying.result()):
            self._context.waits.put_back(rows, pops=self._pops)


def _claimed(store: Store, claim: Claim) -> list[JobRow]:
    """Claim jobs. Claim again if the store stopped among parked jobs, as there may be claimable ones behind them."""
    while not (claimed := store.claim(claim)).rows and claimed.retry_in == 0:
        claim = claim._replace(token=new_token())
    return claimed.rows
