"""The jobs beside NCCL's all-reduce: other transports, MPI on CPUs, and training."""
