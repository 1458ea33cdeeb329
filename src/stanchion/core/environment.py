"""Environment variables that the package reads; the reference of the documentation is made of these docstrings."""

from __future__ import annotations

from typing import Final

URL: Final = "STANCHION_URL"
"""URL of the store, for an app or a command that names none: `postgresql://app:secret@db/shop`."""

KEYS: Final = "STANCHION_KEYS"
"""Keys of encrypted payloads, separated by commas, for reads and writes by Spark that name none."""

CALL_SECONDS: Final = "STANCHION_CALL_SECONDS"
"""Seconds that one call of the store may take, retries included. Default: 10."""

PAGE_SECONDS: Final = "STANCHION_PAGE_SECONDS"
"""Seconds after which `stanchion web` gives up a read of the store. Default: 2."""

WEB_TOKEN: Final = "STANCHION_WEB_TOKEN"  # noqa: S105 - the name of a variable
"""Token of the role operate for `stanchion web`, where no file of tokens is given."""

MANAGER_TOKEN: Final = "STANCHION_MANAGER_TOKEN"  # noqa: S105 - the name of a variable
"""Token with all rights for `stanchion manager`, where no file of tokens is given, and for its clients."""

WEBHOOK_TOKEN: Final = "STANCHION_WEBHOOK_TOKEN"  # noqa: S105 - the name of a variable
"""Bearer token that `stanchion alerts --webhook` sends."""

DEBUG: Final = "STANCHION_DEBUG"
"""Set it to 1 for the traceback of an error of the command line, as `--debug` does."""
