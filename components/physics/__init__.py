"""The limits that line rate, PCIe and protocol set. Pure."""
