"""The checks of `longhaul doctor`: each is a generator of findings about a target."""
