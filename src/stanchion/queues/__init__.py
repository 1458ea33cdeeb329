"""Queues and semaphores."""
