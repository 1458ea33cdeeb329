"""Pushes of all threads of a process on one stream to a manager."""
