"""`datassay run`, `score` and `summarize`."""
