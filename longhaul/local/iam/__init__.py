"""The roles of the embedded AWS: who calls, what the call does, and whether it may."""
