"""Step 0: names, files and arrays become sample sets."""
