"""Chunks: the payload of a job that carries many items."""
