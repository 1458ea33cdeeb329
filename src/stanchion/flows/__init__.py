"""Flows: chains, groups, barriers and event groups."""
