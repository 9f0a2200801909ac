"""What the commands share at a terminal: options, output, errors, signals."""
