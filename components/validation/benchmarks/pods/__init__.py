"""The rails from inside pods: a pod per node, and pings between them."""
