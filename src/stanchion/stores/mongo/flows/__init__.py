"""Flows on MongoDB."""
