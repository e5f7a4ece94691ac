"""`datassay complexity --inputs`."""
