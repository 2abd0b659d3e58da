"""What is wrong in a cluster: an inventory against the lab file, the majority of its peers, and good practice."""
