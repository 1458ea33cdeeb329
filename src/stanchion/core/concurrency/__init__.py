"""Threads, event loops and forks."""
