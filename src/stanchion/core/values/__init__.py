"""Values as plain ones, and as JSON in the store."""
