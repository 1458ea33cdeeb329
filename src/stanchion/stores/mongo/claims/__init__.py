"""Claims on MongoDB."""
