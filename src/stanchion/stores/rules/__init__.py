"""Decisions that all stores share, without input or output."""
