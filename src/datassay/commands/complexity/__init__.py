"""`datassay complexity`."""
