"""The all-reduce of MPI on CPUs: what UCX logs of it, and what the log says against it."""
