"""Cases of jobs."""
