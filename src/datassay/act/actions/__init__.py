"""What can be done to training samples: one action per module, each registered as ACTION."""
