"""The Spark data source, for reading, writing and streaming jobs."""
