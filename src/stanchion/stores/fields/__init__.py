"""The table of the fields of jobs, and the texts that derive from it."""
