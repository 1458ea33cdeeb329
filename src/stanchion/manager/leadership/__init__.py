"""Which manager serves which lanes of a queue: sessions and slices, kept in the store by compare-and-set."""
