"""What verdicts are made with: states, statistics, and the search for faulty parts. Pure."""
