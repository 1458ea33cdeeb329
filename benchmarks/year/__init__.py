"""The work of a large day on one computer: a year of flights, many times, through three streams into an archive."""
