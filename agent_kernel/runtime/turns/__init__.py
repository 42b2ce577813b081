"""A turn of the model: the checks before it, its request, and its answer on the way to the log."""
