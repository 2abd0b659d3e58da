"""The all-reduce of nccl-tests: its job, its log, and how it is judged."""
