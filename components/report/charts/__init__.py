"""Charts of a run as SVG that takes its colours from the page around it. matplotlib is loaded only from here."""
