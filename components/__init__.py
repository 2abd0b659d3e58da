"""How each layer of a lab is built: pure renderers beside the resource files that place them."""
