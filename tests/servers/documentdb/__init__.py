"""The MongoDB protocol in front of DocumentDB, PostgreSQL with MongoDB's data model; for tests only.

Matching, updating, indexes, uniqueness, expiry and atomicity are those of the extension. The gateway adds
the protocol, transactions, and capped collections with tailable cursors. It listens on loopback only,
without authentication.
"""
