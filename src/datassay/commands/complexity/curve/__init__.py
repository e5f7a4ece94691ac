"""`datassay complexity DATA`."""
