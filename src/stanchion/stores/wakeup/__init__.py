"""Listeners that wake those who wait for work."""
