"""What makes the tables of traces."""
