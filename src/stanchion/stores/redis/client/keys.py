"""Key prefixes. Braces put all keys with the same prefix into one slot of a cluster."""

from __future__ import annotations

from stanchion.stores.cas.entries import key_of
from stanchion.stores.records.slots import Slot


class Keys:
    """The keys of one store, by its prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def queue(self, queue: str) -> str:
        """Return the prefix of the keys of a queue."""
        return f"{self.prefix}:{_tag(queue)}:"

    def slot(self, slot: Slot) -> str:
        """Return the prefix of the keys of a slot."""
        return f"{self.prefix}:slot:{_tag(key_of(slot))}:"

    def flow(self, node: str) -> str:
        """Return the prefix of the keys of a flow node; the root's keys also serve the whole flow."""
        return f"{self.prefix}:flow:{_tag(node)}:"

    def stage(self, write: str) -> str:
        """Return the prefix of the keys of a staged write."""
        return f"{self.prefix}:stage:{_tag(write)}:"

    def own(self, name: str) -> str:
        """Return a key that belongs to no queue."""
        return f"{self.prefix}:{name}"


def _tag(name: str) -> str:
    """Return a name in braces, with its own braces escaped; a cluster would ignore braces without a name."""
    escaped = name.replace("%", "%25").replace("}", "%7D") or "%"
    return f"{{{escaped}}}"
