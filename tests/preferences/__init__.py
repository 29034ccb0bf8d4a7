"""Which of two responses is better."""
