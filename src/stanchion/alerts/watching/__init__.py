"""Alerts over time: what begins and what ends, and telling it to others."""
