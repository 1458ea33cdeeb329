"""The receivers of a manager: what each takes, in which order, and the jobs that it has."""
