"""Looking: home, runs, items, cases, search, trends, leaderboard."""
