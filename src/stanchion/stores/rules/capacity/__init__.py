"""What restrains claims: the limits of jobs, slots, rates, and the shapes of queues."""
