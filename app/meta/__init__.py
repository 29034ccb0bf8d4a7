"""Meta-evaluation: whether the scores of batches mean anything, and what a CI job should make of them."""
