"""Which models are in which database: those of the shop in the default one."""

from __future__ import annotations


class Reports:
    """Keeps the shop's tables out of the database of the reports, where Stanchion has its own."""

    def allow_migrate(self, db: str, app_label: str, **_: object) -> bool | None:
        """Return whether an app may have tables in a database."""
        return app_label == "stanchion" if db == "reports" else None
