"""Influence by reverse mode through a whole training run."""
