"""Taking jobs out of a queue: a first try, and then a wait."""

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


class Taking:
    """One call that reserves or pops jobs, waiting up to `wait` seconds for the first.

    `wish` says what is wanted; each try has a token of its own.
    """

    def __init__(self, context: Context, wish: Claim, wait: float, *, pops: bool = False) -> None:
        self._context, self._wish, self._wait, self._pops = context, wish, wait, pops
        self._deadline = time.monotonic() + wait
        self._unanswered: Claim | None = None

    def rows(self) -> list[JobRow]:
        """Return the jobs; none once the time is over."""
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
        """Return what can be had now; None to wait, also for a store that does not answer."""
        self._context.upkeep.nudge()
        claim = self._wish._replace(token=new_token())
        try:
            store = self._context.store
            self._context.declare(claim.queue)
            rows = pop(store, claim).rows if self._pops else _claimed(store, claim)
        except StoreUnavailable as error:
            if error.lasting or self._wait <= 0:
                raise
            self._unanswered = claim
            return None
        return rows if rows or self._wait <= 0 else None

    def _waiter(self, loop: asyncio.AbstractEventLoop | None) -> Waiter[list[JobRow]]:
        waits = self._context.waits
        return waits.for_work(self._wish, self._deadline, loop, pops=self._pops, unanswered=self._unanswered)

    def _return(self, trying: Future[list[JobRow] | None]) -> None:
        """Give back what a try has taken whose caller was cancelled meanwhile."""
        if not trying.cancelled() and trying.exception() is None and (rows := trying.result()):
            self._context.waits.put_back(rows, pops=self._pops)


def _claimed(store: Store, claim: Claim) -> list[JobRow]:
    """Claim jobs, again where the store broke off among jobs that have to wait: there may be others behind them."""
    while not (claimed := store.claim(claim)).rows and claimed.retry_in == 0:
        claim = claim._replace(token=new_token())
    return claimed.rows
