"""Who is told of an end: a stage's `notify`, and OpenLineage."""
