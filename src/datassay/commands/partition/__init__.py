"""`datassay partition`."""
