"""The version of the schema, apart from the migrations: to compare it needs no SQLAlchemy."""

from __future__ import annotations

from typing import Final

VERSION: Final = 7
"""The number of steps in `migrations.MIGRATIONS`."""
