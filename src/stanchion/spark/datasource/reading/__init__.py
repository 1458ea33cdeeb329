"""Reading jobs and history, as a batch or as a stream."""
