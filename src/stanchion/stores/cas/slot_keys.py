"""The names of slots as one text each, for databases whose keys are texts.

order        o5:queue:key, where the length keeps queue and key apart
semaphore    s:name
node         f:id
"""

from __future__ import annotations

from stanchion.stores.records.slots import NODE, ORDER, SEMAPHORE, Slot

_LETTERS = {ORDER: "o", SEMAPHORE: "s", NODE: "f"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


def key_of(slot: Slot) -> str:
    """Return the text of a slot."""
    length = f"{len(slot.queue)}:{slot.queue}" if slot.kind == ORDER else ""
    return f"{_LETTERS[slot.kind]}{length}:{slot.name}"


def slot_of(key: str) -> Slot:
    """Return the slot of a text."""
    kind, (length, _, name) = _KINDS[key[0]], key[1:].partition(":")
    if kind != ORDER:
        return Slot(kind, "", name)
    end = int(length)
    return Slot(kind, name[:end], name[end + 1 :])
