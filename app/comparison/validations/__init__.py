"""Documents that are checked before they are sent."""
