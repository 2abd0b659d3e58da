"""What line, PCIe and protocol allow. Pure."""
