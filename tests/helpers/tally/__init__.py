"""A command as a newcomer would add it: one folder of five files, nothing else edited."""
