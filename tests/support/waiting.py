"""How long a test waits for what is to happen."""

LIMIT_SECONDS = 240.0
"""What takes longer does not come, on whatever machine: one that is busy may be twenty times as slow as one at rest."""
