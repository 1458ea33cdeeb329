"""Flows on Redis."""
