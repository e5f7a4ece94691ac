"""The suite of measurements: a task per file; `python -m bench` runs it."""
