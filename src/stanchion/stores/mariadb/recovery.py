"""Recovery on MariaDB and MySQL, which retries if a row may be locked only briefly."""

from __future__ import annotations

import time

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.sql.claims.recover import Recovery

_MOMENT = 0.02


class MariaDBRecovery(Recovery):
    """Frees lost jobs."""

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        freed = super().recover(limit, as_of)
        if len(freed) < limit and self._db.read(lambda run: run.rows(sql.ANY_EXPIRED, {"locked_leases": 0}))[0][0]:
            # A late holder locks its job for a moment, until it is refused.
            time.sleep(_MOMENT)
            freed += super().recover(limit - len(freed), as_of)
        return freed
