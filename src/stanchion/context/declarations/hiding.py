"""Hidden arguments of tasks, as declared by code and stored for processes without the code: a value per task.

A process stores what its code declares before it pushes or reserves; the process that began last is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final

from stanchion.context.declarations.declared_texts import DeclaredTexts
from stanchion.core.text.hiding import Hidden
from stanchion.stores.protocol import Store

KIND: Final = "hidden"


class DeclaredHidden:
    """Hidden arguments of one process's tasks, by name."""

    def __init__(self) -> None:
        self.declared: dict[str, Hidden] = {}
        self._texts = DeclaredTexts(KIND)

    def declare(self, task: str, hidden: Hidden) -> None:
        """Remember the hidden arguments of a task."""
        self.declared[task] = hidden
        self._texts.declare(task)

    def store(self, store: Store) -> None:
        """Store declarations that are new or were lost; a token that only pushes leaves it to workers."""
        self._texts.keep(store, lambda: {task: _text(hidden) for task, hidden in self.declared.items()})

    def masking(self, task: str | None, payload: Callable[[], object]) -> Callable[[str], str] | None:
        """Return what masks the hidden values of a job in texts; None for a task that hides nothing."""
        hidden = self.declared.get(task or "")
        return None if hidden is None or not hidden.places else hidden.masking(payload())

    def of(self, store: Store, tasks: Iterable[str | None]) -> dict[str, Hidden]:
        """Return the hidden arguments of tasks, as declared here or stored, without tasks that hide nothing."""
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
