"""Texts that people read: errors, tracebacks, durations; and the values hidden from them."""
