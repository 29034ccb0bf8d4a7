"""Drawings of what the analyses found. Needs the extra `plot` (matplotlib and networkx); nothing else imports it."""
