"""`datassay bench`."""
