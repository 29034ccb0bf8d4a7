"""What scores and ratings say: agreement, correlation, dependency, fits, comparison. Pure: numpy and scipy."""
