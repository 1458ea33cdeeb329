"""Tables in folders: Delta tables and folders of Parquet files."""
