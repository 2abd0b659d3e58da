"""perftest between the PFs: which transfers, how they run, what they print, and how they are
judged.
"""
