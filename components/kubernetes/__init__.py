"""The one client of the Kubernetes API."""
