"""The losses, a module each; see `datassay.collect.loss`."""
