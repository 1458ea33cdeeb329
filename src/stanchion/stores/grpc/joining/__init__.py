"""Calls in transactions of the caller, on the database behind the managers."""
