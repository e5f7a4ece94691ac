"""`datassay example`: a small data set with planted faults, and their truth."""
