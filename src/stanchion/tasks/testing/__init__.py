"""For tests: tasks run in this process, and assertions about what was enqueued."""
