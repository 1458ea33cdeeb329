"""The process around a worker: its signals, its pulse, its probes and its log lines."""
