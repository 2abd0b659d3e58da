"""What is measured, with whom and when: pure functions of the lab file."""
