"""Writing new jobs and outcomes, as a batch or as a stream."""
