"""The operations, grouped by what they are about."""
