"""What single papers bring: each folder stands by itself, and is found as anyone's plug-in is."""
