"""One file per family of programs: how its table begins, its rows, and its end."""
