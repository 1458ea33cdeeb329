"""Reading declared rates within the transaction of a claim; `context.declarations.rates` declares them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from stanchion.stores.rules.capacity.declared_rates import CachedRates
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.values import Values


class RateReads:
    """Reads the declared rates of a store; cached."""

    def __init__(self, values: Values) -> None:
        self._values, self.cached = values, CachedRates()

    def declared(self, run: Runner, names: Iterable[str]) -> dict[str, float]:
        """Return the starts per second that are declared for any of these rates."""
        return self.cached.of(names, partial(self._values.read, run))
