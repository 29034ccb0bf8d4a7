"""Pages that show runs, their results and their trends."""
