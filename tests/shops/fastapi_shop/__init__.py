"""A shop in FastAPI: orders that are charged, then confirmed by mail; written with docs/fastapi.md."""
