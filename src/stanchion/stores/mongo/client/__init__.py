"""Connections to MongoDB, and the forms in which it keeps things."""
