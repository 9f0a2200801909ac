"""Iceberg tables in the Glue catalog, by pyiceberg without pyarrow.

Imported where a table is at hand, and not before: it takes a third of a second.
"""
