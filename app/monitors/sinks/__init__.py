"""Results and alarms on their way to other services."""
