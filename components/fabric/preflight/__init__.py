"""Looks at hosts and switches before anything is changed, and says what would not work there."""
