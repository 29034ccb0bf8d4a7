"""Rounds in which people compare pairs, over HTTP. They are rounds of `saiten_server.ratings.rounds`."""
