"""Cases of semaphores, order keys and rates."""
