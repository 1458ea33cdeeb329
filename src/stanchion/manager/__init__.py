"""The manager: a server in front of a store, which keeps due jobs in memory and streams them to receivers."""
