"""Connections to Redis, and stored forms."""
