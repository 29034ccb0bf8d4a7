"""Human ratings, rating rounds, how far judges follow people, and training data from ratings."""
