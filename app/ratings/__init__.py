"""Human ratings, rating rounds, and how far judges follow people."""
