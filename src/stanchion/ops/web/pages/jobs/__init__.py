"""Pages of jobs: their list, one of them, bulk work, errors, flows."""
