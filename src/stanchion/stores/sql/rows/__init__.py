"""Rows of jobs, queues and slots, and the transactions that change them."""
