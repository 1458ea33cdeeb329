"""Monitoring and operation: command line, page, API and audit log."""
