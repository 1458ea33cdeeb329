"""Reading: jobs by id and by query, record batches, statistics."""
