"""The operations, grouped by subject."""
