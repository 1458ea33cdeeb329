"""Cases of partitioned queues."""
