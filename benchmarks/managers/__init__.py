"""What managers cost and gain, beside clients of the database itself."""
