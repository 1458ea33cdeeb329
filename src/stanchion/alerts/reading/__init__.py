"""Reading a snapshot: bounded queries of the store, whose number does not depend on the number of jobs."""
