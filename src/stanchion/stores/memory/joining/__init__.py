"""Transactions of callers that a store in memory follows, for tests: what is stored in one appears with its commit."""
