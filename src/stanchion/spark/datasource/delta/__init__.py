"""Delta tables that batches of a stream are appended to, each once."""
