"""Charts of a run as SVG in the colours of the page around it. Only they load matplotlib."""
