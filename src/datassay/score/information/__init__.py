"""Information of samples, pairs, groups and sources."""
