"""A review of suspected labels: what its page shows, with a server behind it or without one."""
