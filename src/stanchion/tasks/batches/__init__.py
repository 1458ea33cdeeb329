"""Batches: one call of a task for many of its jobs, which end one by one."""
