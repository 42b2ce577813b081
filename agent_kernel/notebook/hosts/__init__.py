"""The two hosts of a run, embedded and served, and its live view."""
