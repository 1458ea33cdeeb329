"""Leadership: who owns which slices."""
