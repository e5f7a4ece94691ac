"""A finished run reviewed in a browser, with decisions saved at every key."""
