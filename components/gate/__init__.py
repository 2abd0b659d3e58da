"""`rocelab gate`: whether jobs may start on the nodes of a lab now. It reads, and decides."""
