"""What carries the rails into pods: network and device plugins, address pools, attachments, the MPI
operator.
"""
