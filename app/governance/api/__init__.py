"""What an administrator and an operator ask."""
