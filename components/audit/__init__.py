"""What is wrong in a cluster: an inventory against lab file, peers, and good practice."""
