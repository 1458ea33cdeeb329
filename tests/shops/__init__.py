"""Shops written with the documentation alone, as a reader would."""
