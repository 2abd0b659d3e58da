"""What a lab is: frozen models of one stack file. Nothing here places a resource."""
