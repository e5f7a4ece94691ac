"""`datassay explain`."""
