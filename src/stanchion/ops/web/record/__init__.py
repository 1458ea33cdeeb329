"""What the page keeps in the store: the audit log and bulk work."""
