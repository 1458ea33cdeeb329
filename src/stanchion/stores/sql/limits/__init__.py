"""Semaphores, declared rates, and slot repair."""
