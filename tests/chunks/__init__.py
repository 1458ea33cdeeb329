"""The encoding of chunks: payloads of many items."""
