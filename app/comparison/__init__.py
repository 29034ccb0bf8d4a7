"""Two runs: pairing, differences, gate."""
