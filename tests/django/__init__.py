"""Stanchion in projects of Django."""
