"""Orders, their tasks, and their views."""
