"""Streams of producers and receivers."""
