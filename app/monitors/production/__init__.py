"""From production to tests: live conversations become items of datasets and rating rounds, and windows baselines."""
