"""Steps of a run."""
