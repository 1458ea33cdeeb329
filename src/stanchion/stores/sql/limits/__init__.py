"""Semaphores, and slot repair."""
