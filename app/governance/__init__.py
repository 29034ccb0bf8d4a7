"""Who may do what: keys, limits, policies, audit; and what an operator sees."""
