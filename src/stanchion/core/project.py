"""The project's home on the web. The build reads this file by itself, so it imports nothing."""

HOME = "https://github.com/stanchion-queue/stanchion"

FILES = f"{HOME}/blob/main"
"""Start of the address of a file in the repository."""

PICTURES = f"{HOME}/raw/main"
"""Start of the address of a file's bytes, such as a picture's."""

RUNBOOK = f"{FILES}/docs/alerts.md"
"""The page with a section on each rule of the alerts."""
