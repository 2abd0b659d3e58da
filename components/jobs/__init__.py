"""Benchmark jobs: MPIJobs from the rails, a converter for jobs of older operators, and the image that they run."""
