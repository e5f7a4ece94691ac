"""How many samples a network needs: teachers and students (S3, chapter 2), learning curves."""
