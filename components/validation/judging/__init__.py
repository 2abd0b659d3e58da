"""From measured facts to a verdict. Pure, so that a threshold edit measures nothing."""
