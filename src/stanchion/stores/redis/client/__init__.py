"""Connections to Redis, and the forms in which it keeps things."""
