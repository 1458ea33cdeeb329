"""Parts shared by stores without transactions: the read, decide, compare-and-set loop."""
