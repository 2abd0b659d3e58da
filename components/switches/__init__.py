"""The switch layer: text for each switch OS from the rails and, only when asked, the text on the
switch.
"""
