"""Links between the scales of two judges."""
