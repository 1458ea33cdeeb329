"""Listeners, which wake callers that wait for work."""
