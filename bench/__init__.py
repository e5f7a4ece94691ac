"""The suite of measurements: a task a file; `python -m bench` runs it."""
