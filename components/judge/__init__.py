"""`rocelab judge`: is a pasted result good? Reads leniently, judges by physics, needs no lab. Pure."""
