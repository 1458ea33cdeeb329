"""Bounded queries for the pages."""
