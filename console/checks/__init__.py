"""What `longhaul doctor` looks at: each check is a generator of findings about a target."""
