"""What a job has stored for its next attempt."""
