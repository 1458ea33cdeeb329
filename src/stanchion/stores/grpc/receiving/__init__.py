"""Jobs that managers send to the workers of this process, and outcomes back, by streams."""
