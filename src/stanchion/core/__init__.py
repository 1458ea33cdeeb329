"""What knows no job and no store: ids, times, retries, checks, values, texts, threads."""
