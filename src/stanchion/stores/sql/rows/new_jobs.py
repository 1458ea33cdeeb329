"""The columns of new jobs; without SQLAlchemy."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from stanchion.stores.fields.jobs import BY_RULE, CHOSEN
from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.jobs import JobRow

_FILLED = {"id", "payload", "origin", *CHOSEN, *BY_RULE} - {"waits_since"}
OF_NEW_JOBS: Final = tuple(name for name in LIVE_COLUMNS if name in _FILLED)
"""The columns that a new job may fill if it belongs to no flow and waits for nothing."""

_LATER = {name: default for name, default in JobRow._field_defaults.items() if name not in OF_NEW_JOBS}
"""What such a job has in the other columns, which is their default."""

new_values = itemgetter(*map(JobRow._fields.index, OF_NEW_JOBS))
later_values = itemgetter(*map(JobRow._fields.index, _LATER))
NONE_YET: Final = tuple(_LATER.values())
