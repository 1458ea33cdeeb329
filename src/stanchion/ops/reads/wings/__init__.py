"""Reads of the wings, for their commands and for the page."""
