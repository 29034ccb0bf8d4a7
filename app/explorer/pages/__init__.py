"""The pages of runs: the list, one run, its items, two runs side by side, trends."""
