"""What a process tells probes and Prometheus about itself, on one port."""
