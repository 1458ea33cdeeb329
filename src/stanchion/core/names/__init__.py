"""Names and tokens: checked, hashed, and derived from others."""
