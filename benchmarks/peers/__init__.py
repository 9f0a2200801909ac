"""Longhaul beside other consumers of SQS, on the same work."""
