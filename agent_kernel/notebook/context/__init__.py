"""What the model is told of the notebook when a run begins."""
