"""What carries the rails into pods.

Network and device plugins, address pools, attachments, the MPI operator.
"""
