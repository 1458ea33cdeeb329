"""What an item costs in a pipeline, by the way it takes: `python -m benchmarks.pipelines`."""
