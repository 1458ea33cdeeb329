"""Cases of what managers need of a store."""
