"""What the numbers mean: agreement, correlation, hierarchy, fits, corrected figures."""
