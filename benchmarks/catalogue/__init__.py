"""Jobs for benchmarks only. `benchmarks.runner` adds them to those of `longhaul.catalogue`."""
