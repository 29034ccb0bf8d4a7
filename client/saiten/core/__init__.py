"""What the client and the server share."""
