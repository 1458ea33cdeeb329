"""History as Delta or Parquet files."""
