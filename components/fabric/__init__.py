"""The vSphere side of a lab."""
