"""The names of the tables as every connection finds them, whatever its `search_path`.

Statements are written with bare names. Where the tables have a schema of their own, it is put before these names in the
finished SQL, so that a statement reaches the same tables on our connections, on a caller's, and behind a pooler.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sqlalchemy import URL

from stanchion.stores.sql.engine.schema import metadata

_TABLE: Final = re.compile(rf"--.*|'(?:[^']|'')*'|(?<![\w.\"])(?:{'|'.join(sorted(metadata.tables))})\b")
"""A comment or a text, which may contain anything, or the name of a table."""
_SUBSTITUTE: Final = re.compile(r"\b(stanchion_\w+) AS\s*\(")
"""A common table expression that takes the place of a table."""


class Qualified(NamedTuple):
    """Puts the schema before the names of the tables; None: the connection's own `search_path` finds them."""

    schema: str | None = None

    def __call__(self, sql: str) -> str:
        """Return a statement with qualified names."""
        if self.schema is None:
            return sql
        substitutes = set(_SUBSTITUTE.findall(sql))

        def qualify(found: re.Match[str]) -> str:
            left = found[0].startswith(("'", "--")) or found[0] in substitutes
            return found[0] if left else f'"{self.schema}".{found[0]}'

        return _TABLE.sub(qualify, sql)

    def shown(self, url: URL) -> URL:
        """Return the URL of the tables for messages: that of their database, with the schema."""
        return url if self.schema is None else url.update_query_dict({"schema": self.schema})
