"""How each part of a plan is run, read and judged."""
