"""Changes of jobs: push, settle, flows, cancel and retry, adopt, delete."""
