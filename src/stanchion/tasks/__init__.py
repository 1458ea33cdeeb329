"""Tasks: functions that workers run."""
