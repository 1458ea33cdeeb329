"""Dispatches the jobs of a manager's slices: stores them as running, sends them to receivers, stores their outcomes."""
