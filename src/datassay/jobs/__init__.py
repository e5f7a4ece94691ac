"""What each command computes, from settings to findings; it reads no options and writes no file."""
