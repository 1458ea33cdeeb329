"""A micro-batch of a Spark station: its items as rows, the DataFrames made of them, and how each item ends."""
