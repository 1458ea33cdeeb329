"""Partitioned queues: one queue for its users, several physical ones for the store."""
