"""Step 2: arrays become one row per sample."""
