"""The console as a page in the browser: it shows the jobs, and can cancel and rerun."""
