"""Staged jobs: stored, but invisible until they are published."""
