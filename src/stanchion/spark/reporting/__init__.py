"""`stanchion report`: what became of the jobs of a store and its archive, on one page."""
