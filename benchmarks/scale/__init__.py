"""A simulation of many shards, managers and receivers: what a job costs, and how slices move.

`python -m benchmarks.scale` runs it; docs/scaling.md has what it shows, and what it leaves out.
"""
