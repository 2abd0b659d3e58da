"""What a cluster is, read without changing it."""
