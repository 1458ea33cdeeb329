"""Claims in a transaction: find and lock due jobs, ask for their slots, write the decision."""
