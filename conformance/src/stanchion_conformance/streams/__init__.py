"""Cases of streams, staged jobs and pipelines."""
