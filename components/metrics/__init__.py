"""Alert rules, a board and the verdict for Prometheus and Grafana, from the lab file."""
