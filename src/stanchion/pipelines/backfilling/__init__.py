"""Backfills: stations work again, with today's code, on the items of a window of time."""
