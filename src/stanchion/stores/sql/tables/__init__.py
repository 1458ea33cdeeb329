"""Tables for results of jobs: made, checked, written with outcomes, and read."""
