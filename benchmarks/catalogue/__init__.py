"""Jobs that only benchmarks run; `benchmarks.runner` puts them beside those of `jobs.catalogue`."""
