"""What speaks to managers: addresses, channels, calls."""
