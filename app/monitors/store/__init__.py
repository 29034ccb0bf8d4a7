"""What monitors keep: options, what they saw of each conversation, sums for alarms, and what waits to be sent."""
