"""The protocol: one message, its lease and its attempts, from the queue to the end."""
