"""The reference store: plain Python in one process, the executable definition of the semantics."""

from stanchion.stores.memory.jobs import Clock, FrozenClock
from stanchion.stores.memory.store import CAPABILITIES, MemoryStore, Rehearsal, open_store

__all__ = ["CAPABILITIES", "Clock", "FrozenClock", "MemoryStore", "Rehearsal", "open_store"]
