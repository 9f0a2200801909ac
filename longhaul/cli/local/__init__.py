"""The stack on the embedded AWS of this machine."""
