"""`datassay lab`."""
