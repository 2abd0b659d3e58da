"""What stays of a run: records, raw outputs and their digests."""
