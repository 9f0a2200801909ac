"""What a job leaves: manifests, pending uploads, tables, and where data comes from."""
