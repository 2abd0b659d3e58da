"""From measured facts to a verdict. Pure, so that an edited threshold needs no new measurement."""
