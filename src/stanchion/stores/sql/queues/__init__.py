"""Queues: settings, shapes and upkeep."""
