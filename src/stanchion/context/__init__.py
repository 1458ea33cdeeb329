"""State shared by the parts of one app."""
