"""Calls in the caller's transactions, on the database of the managers."""
