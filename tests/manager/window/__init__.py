"""Windows of queues."""
