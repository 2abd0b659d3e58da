"""Benchmark jobs: MPIJobs from the rails, and the image that they run."""
