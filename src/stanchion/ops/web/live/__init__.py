"""What the page knows of the last hour, from one reader per process."""
