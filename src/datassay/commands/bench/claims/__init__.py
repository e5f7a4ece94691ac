"""`datassay bench` without data: the library's claims."""
