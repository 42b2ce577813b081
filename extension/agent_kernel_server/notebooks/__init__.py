"""Saved notebooks: which notebook a run is in, and what is saved and loaded in place of a run's widget."""
