"""Which action would help most: each is retrained and compared with the samples as they are."""
