"""Schedules, and the ticker that enqueues their jobs."""
