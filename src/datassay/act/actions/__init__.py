"""What can be done to training samples: one action a module, each registered as ACTION."""
