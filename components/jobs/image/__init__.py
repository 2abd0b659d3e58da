"""The images that the jobs run, as recipes: rendered, built and pushed by `rocelab image`."""
