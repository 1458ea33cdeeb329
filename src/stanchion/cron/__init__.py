"""Schedules, and the ticker that enqueues what they name."""
