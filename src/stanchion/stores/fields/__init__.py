"""What is true of each field of a job, in one place."""
