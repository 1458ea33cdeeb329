"""Bulk work, kept in the store."""
