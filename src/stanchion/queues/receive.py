"""Receiving jobs from a queue: one claim, then a wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stanchion.context.context import Context
from stanchion.core.ids import new_token
from stanchion.errors import NotPermitted, StoreUnavailable
from stanchion.queues.consumer import Consumer, claim_of, heart_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.waits.pop import pop
from stanchion.waits.waiter import Waiter

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future


class Receive:
    """One call that reserves or pops jobs, waiting up to `wait` seconds for the first.

    `wanted`: the claim to make, on behalf of `holder`; each try gets its own token.
    """

    def __init__(
        self,
        context: Context,
        wanted: Claim,
        wait: float,
        *,
        holder: str | Consumer | None = None,
        pops: bool = False,
    ) -> None:
        self._context, self._wait, self._pops = context, wait, pops
        self._wanted, self._heart = claim_of(holder, wanted), heart_of(holder) if isinstance(holder, Consumer) else None
        self._deadline = time.monotonic() + wait
        self._claim: Claim | None = None

    def rows(self) -> list[JobRow]:
        """Return the jobs, or none at the deadline."""
        if (traces := self._context.traces) is None:
            return self._rows()
        with traces.receiving(self._wanted.queue, self._name) as rows:
            rows += self._rows()
            return rows

    async def arows(self) -> list[JobRow]:
        """Return the jobs, waiting on the event loop."""
        if (traces := self._context.traces) is None:
            return await self._arows()
        with traces.receiving(self._wanted.queue, self._name) as rows:
            rows += await self._arows()
            return rows

    @property
    def _name(self) -> str:
        return "pop" if self._pops else "reserve"

    def _rows(self) -> list[JobRow]:
        rows = self._try()
        return self._kept(self._waiter(None).result() if rows is None else rows)

    async def _arows(self) -> list[JobRow]:
        import asyncio  # not loaded by programs without coroutines

        trying = self._context.calls.submit(self._try)
        try:
            rows = await asyncio.wrap_future(trying)
        except BaseException:
            trying.add_done_callback(self._return)
            raise
        return self._kept(await self._waiter(asyncio.get_running_loop()).answer() if rows is None else rows)

    def _try(self) -> list[JobRow] | None:
        """Claim once. Return None to wait: for due jobs, or for a store that does not answer."""
        self._context.upkeep.nudge()
        try:
            store = self._context.store
            self._context.declare(self._wanted.queue)
            rows = pop(store, self._next_claim()).rows if self._pops else self._claimed(store)
        except StoreUnavailable as error:
            if error.lasting or self._wait <= 0:
                self._lose()
                raise
            return None
        except BaseException as error:
            if self._heart is not None and isinstance(error, NotPermitted):
                self._heart.refused(self._wanted.queue)
            self._lose()
            raise
        self._claim = None
        self._context.answered()
        return rows if rows or self._wait <= 0 else None

    def _next_claim(self) -> Claim:
        self._claim = self._wanted._replace(token=new_token())
        return self._claim

    def _claimed(self, store: Store) -> list[JobRow]:
        """Claim jobs. Claim again if the store stopped among parked jobs: there may be claimable ones behind them."""
        while not (claimed := store.claim(self._next_claim())).rows and claimed.retry_in == 0:
            pass
        return claimed.rows

    def _waiter(self, loop: asyncio.AbstractEventLoop | None) -> Waiter[list[JobRow]]:
        """Wait. `_claim`: the one whose reply was lost, if any."""
        waits = self._context.waits
        return waits.for_work(self._wanted, self._deadline, loop, pops=self._pops, lost_claim=self._claim)

    def _kept(self, rows: list[JobRow]) -> list[JobRow]:
        """Return the jobs. Give them back if the block of their consumer has ended, as no heartbeats hold them then."""
        if self._pops or self._heart is None or not self._heart.ended:
            return rows
        self._context.waits.put_back(rows, pops=False)
        return []

    def _lose(self) -> None:
        """Leave the claim to its consumer: it may have reserved jobs that this call does not return."""
        if self._claim is not None and not self._pops:
            self._context.waits.lost_claims.add(self._claim)

    def _return(self, trying: Future[list[JobRow] | None]) -> None:
        """Give back the jobs of a try whose caller was cancelled meanwhile."""
        if trying.cancelled() or trying.exception() is not None:
            return
        if rows := trying.result():
            self._context.waits.put_back(rows, pops=self._pops)
        self._lose()
