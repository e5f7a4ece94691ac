"""`datassay check`: conditions on what a run finds, for a build that must fail."""
