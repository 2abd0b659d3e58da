"""The switch layer: text for four operating systems out of the rails, and, only when asked, the text on the switch."""
