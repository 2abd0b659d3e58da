"""Stored runs: documents, raw outputs and their digests."""
