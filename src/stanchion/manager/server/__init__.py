"""The manager's gRPC server."""
