"""The proof that the lab works: what is measured, how it is read, and how it is judged."""
