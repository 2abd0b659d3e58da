"""Turns MPIJobs of older operators into v2beta1, and names every field that would be lost or mean something else."""
