"""Segments: stations that follow each other without a reason to store items between them."""
