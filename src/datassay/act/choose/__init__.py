"""Which act would help most: each is retrained beside the samples as they are, and compared."""
