"""The page's knowledge of the last hour, from one reader per process."""
