"""How keys begin. What is in braces puts all keys with the same beginning in one slot of a cluster."""

from __future__ import annotations


class Keys:
    """The keys of one store, by its prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def queue(self, queue: str) -> str:
        """Return how the keys of a queue begin."""
        return f"{self.prefix}:{_tag(queue)}:"

    def slot(self, slot: str) -> str:
        """Return how the keys of a semaphore or an order key begin."""
        return f"{self.prefix}:slot:{_tag(slot)}:"

    def flow(self, node: str) -> str:
        """Return how the keys of a node of a flow begin; those of its root are also those of the whole flow."""
        return f"{self.prefix}:flow:{_tag(node)}:"

    def stage(self, write: str) -> str:
        """Return how the keys of what is staged under a write begin."""
        return f"{self.prefix}:stage:{_tag(write)}:"

    def own(self, name: str) -> str:
        """Return a key that belongs to no queue."""
        return f"{self.prefix}:{name}"


def _tag(name: str) -> str:
    """Return a name in braces, and with none in it."""
    escaped = name.replace("%", "%25").replace("}", "%7D")
    return f"{{{escaped}}}"
