"""Topics: each event that is pushed becomes a job for every subscription."""
