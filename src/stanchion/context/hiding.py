"""What tasks hide, as declared by the code and stored for those who have not the code: one versioned value for a task.

A process stores what its code declares before it pushes or reserves; the process that began last is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from stanchion.context.declared_texts import DeclaredTexts
from stanchion.core.hiding import Hidden
from stanchion.stores.protocol import Store

KIND: Final = "hidden"


class DeclaredHidden:
    """What the tasks of one process hide, by their names."""

    def __init__(self) -> None:
        self.declared: dict[str, Hidden] = {}
        self._texts = DeclaredTexts(KIND)

    def declare(self, task: str, hidden: Hidden) -> None:
        """Remember what a task hides."""
        self.declared[task] = hidden
        self._texts.declare(task)

    def store(self, store: Store) -> None:
        """Store what is declared, where it is new or was lost; a token that only pushes leaves it to workers."""
        self._texts.keep(store, lambda: {task: _text(hidden) for task, hidden in self.declared.items()})

    def masking(self, task: str | None, payload: Callable[[], Any]) -> Callable[[str], str] | None:
        """Return what masks the hidden values of a job in texts; None for a task that hides nothing."""
        hidden = self.declared.get(task or "")
        return None if hidden is None or not hidden.places else hidden.masking(payload())

    def of(self, store: Store, tasks: Iterable[str | None]) -> dict[str, Hidden]:
        """Return what tasks hide, as this process declares it, or as it is stored, without those that hide nothing."""
        names = {task for task in tasks if task}
        unknown = names - self.declared.keys()
        found = {value.name: _hidden(value.text) for value in store.values(KIND, sorted(unknown))} if unknown else {}
        found |= {task: self.declared[task] for task in names & self.declared.keys()}
        return {task: hidden for task, hidden in found.items() if hidden.places}


def _text(hidden: Hidden) -> str:
    return json.dumps(hidden, separators=(",", ":"))


def _hidden(text: str) -> Hidden:
    places, parameters = json.loads(text)[:2]
    return Hidden(tuple(map(tuple, places)), tuple(parameters))
