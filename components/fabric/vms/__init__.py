"""The VMs of a lab, our own and those of others: what is read of them, and how they are changed."""
