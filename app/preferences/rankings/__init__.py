"""Which system is better: rankings of systems by preferences, and leaderboards."""
