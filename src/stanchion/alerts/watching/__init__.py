"""Alerts over time: beginnings and ends, and their delivery to others."""
