"""Flow control of one endpoint and key: how many calls at once, how many a minute, and none before it asked for."""
