"""A turn of the model: what has to be settled before it, its request, and its words on their way to the log."""
