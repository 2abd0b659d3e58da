"""MPIJobs and pods in the cluster: how they are followed, their images, and the evidence of a failure."""
