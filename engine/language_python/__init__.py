"""Language host for Python programs, used where the CLI was built and the official host cannot be had."""
