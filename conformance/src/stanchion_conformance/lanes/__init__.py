"""Cases of lanes."""
