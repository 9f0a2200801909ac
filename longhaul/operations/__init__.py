"""What people and programs do with a deployed stack: submit, find, wait, cancel, rerun, drain."""
