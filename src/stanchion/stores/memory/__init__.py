"""The reference store: plain Python in one process, the executable definition of the semantics."""

from stanchion.stores.memory.store import CAPABILITIES, MemoryStore, open_store

__all__ = ["CAPABILITIES", "MemoryStore", "open_store"]
