"""A command over stack outputs: it shows the verdict, and writes it as Markdown and JSON."""
