"""What the processes that share a SQLite file do for each other: turns, signals, polls, and forks."""
