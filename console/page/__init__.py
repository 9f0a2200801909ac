"""The console as a page in the browser: what is going on, and the same few things that one can do about it as on the command line."""
