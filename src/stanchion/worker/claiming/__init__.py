"""Which jobs a worker claims: from which queues, how many, and when."""
