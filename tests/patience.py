"""How long a test waits for what must come."""

DEADLINE_S = 600
"""Only a test that fails waits this long. A busy machine may be ten times slower than its own."""
