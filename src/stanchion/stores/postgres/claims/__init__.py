"""PostgreSQL's claims, by the shape of the queue, and its push of jobs that are to run."""
