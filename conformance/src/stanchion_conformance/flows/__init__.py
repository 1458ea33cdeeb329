"""Cases of flows."""
