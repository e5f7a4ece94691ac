"""What all scores of a linearised network share."""
