"""Connections to MongoDB, and stored forms."""
