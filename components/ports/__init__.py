"""Which ports of a lab have to be open from where, why, and whether they are."""
