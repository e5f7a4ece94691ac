"""Where to sample a function next."""
