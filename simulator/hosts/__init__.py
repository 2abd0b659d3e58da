"""Many hosts in one process, for scale and faults only: SSH is real, what the hosts answer is what we wrote."""
