"""Which of two responses is better: pairs, preferences and rankings."""
