"""What is seen, and how it is operated."""
