"""Language host for Python programs, used with a CLI that was built: the official host's module is not available."""
