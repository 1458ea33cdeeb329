"""Pages of queues: their list, one of them, its settings; and of semaphores."""
