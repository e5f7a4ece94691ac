"""How many samples a network needs: teacher and student networks, and learning curves of data."""
