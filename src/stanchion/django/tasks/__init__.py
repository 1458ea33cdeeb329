"""The backend of Django's tasks: tasks as jobs, and jobs as their results."""
