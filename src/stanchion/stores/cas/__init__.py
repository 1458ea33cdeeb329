"""The parts that stores without transactions share: read, decide, compare-and-set."""
