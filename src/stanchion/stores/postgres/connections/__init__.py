"""Connections to PostgreSQL: sessions, callers' drivers, error codes, the schema of a URL, and wake-up."""
