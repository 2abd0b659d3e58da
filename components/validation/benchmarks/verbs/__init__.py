"""perftest between the PFs.

Which transfers, how they run, what they print, and how they are judged.
"""
