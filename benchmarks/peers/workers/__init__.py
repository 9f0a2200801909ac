"""What runs in the workers' own processes. Needs the standard library, and the consumer's own."""
