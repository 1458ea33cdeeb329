"""Stations that run on Spark."""
