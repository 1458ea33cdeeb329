"""Cases of schedules."""
