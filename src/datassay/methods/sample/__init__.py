"""Where to sample a function next (S0)."""
