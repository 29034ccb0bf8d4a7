"""How one score is made."""
