"""What a network looks at."""
