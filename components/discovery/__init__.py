"""From an inventory to a lab file: what `rocelab discover` drafts, asks and announces. Pure functions."""
