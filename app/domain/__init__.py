"""What a score is: pure values and rules, without I/O, clock or environment."""
