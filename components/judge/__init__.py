"""`rocelab judge`: is a pasted result good? Judged by physics, without a lab. Pure."""
