"""Tools for tests: `stanchion.testing.conformance` is the behaviour suite that every store passes."""
