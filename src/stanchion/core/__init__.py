"""What knows no job and no store: codec, ids, times, retries, checks, events."""
