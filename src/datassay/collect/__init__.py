"""Step 1: a model and samples become arrays."""
