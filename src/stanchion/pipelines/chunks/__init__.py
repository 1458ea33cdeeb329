"""Chunks at stations: a job of many items is processed at once, and divided where its items part."""
