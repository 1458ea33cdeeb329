"""A shop in Flask: orders that are packed and shipped in order; written with docs/flask.md."""
