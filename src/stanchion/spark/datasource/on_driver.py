"""State that the reader of a stream keeps only on the driver: an app, and the state of its query."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property

from stanchion.app import Stanchion
from stanchion.spark.datasource.options import Place


class OnDriver:
    """A reader of a store whose copies, in tasks, are without connections and threads: attributes named `_...`."""

    place: Place

    def __getstate__(self) -> dict[str, object]:
        """Leave out what belongs to one process."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    @cached_property
    def _app(self) -> Stanchion:
        self._opened = ExitStack()  # never closed: the process ends with the query
        return self._opened.enter_context(self.place.app())
