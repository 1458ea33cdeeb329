"""Feeds of what happens, and waiting for work without taking it."""
