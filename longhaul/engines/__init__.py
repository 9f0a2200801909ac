"""The engines: a folder each, whose files have the same names. A file's name tells its layer."""
