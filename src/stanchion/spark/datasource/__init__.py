"""The Spark data source: jobs read, written and streamed."""
