"""The rules: pure functions from a snapshot to alerts."""
