"""How jobs, attempts and dead letters read as text, on a terminal and on the page alike."""
