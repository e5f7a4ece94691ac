"""`datassay export`: a finished run as files that other tools open."""
