"""The jobs that are due now or soon, kept in memory by their keys."""
