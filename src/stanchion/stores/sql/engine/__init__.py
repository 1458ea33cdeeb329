"""Connections, transactions and the schema of the SQL stores."""
