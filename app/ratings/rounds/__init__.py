"""Rating rounds and the people who are invited to them."""
