"""From an inventory to a lab file: what `rocelab discover` drafts and asks. Pure functions."""
