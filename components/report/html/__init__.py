"""The report as one HTML file that asks nobody for anything: no script, no font, no picture from elsewhere."""
