"""A network that is linear in its weights around the trained ones, trained again."""
