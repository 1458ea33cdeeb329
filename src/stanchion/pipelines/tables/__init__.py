"""Tables as targets of stations: their schema, and the rows that items become."""
