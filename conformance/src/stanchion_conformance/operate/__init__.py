"""Cases of operation."""
