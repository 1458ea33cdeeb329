"""What the parts of one app share."""
