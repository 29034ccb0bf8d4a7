"""The dashboard: pages for people, rendered on the server, on the same store and with the same keys as the API."""
