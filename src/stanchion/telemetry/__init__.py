"""Probes and Prometheus metrics of a process, on one port."""
