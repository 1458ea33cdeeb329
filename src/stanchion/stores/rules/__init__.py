"""Decisions shared by all stores: pure functions, no I/O."""
