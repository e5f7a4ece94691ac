"""`datassay report`."""
