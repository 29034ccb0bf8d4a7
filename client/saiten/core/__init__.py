"""What the client and the server share. It imports nothing else of either."""
