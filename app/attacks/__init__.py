"""What a judge does with texts that attack it."""
