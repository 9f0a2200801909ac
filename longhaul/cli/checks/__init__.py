"""The checks of `longhaul check`: each is a generator of findings about a target."""
