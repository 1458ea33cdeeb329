"""The manager: a server in front of a store."""
