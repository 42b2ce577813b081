"""Runs an approved call as one execution in a Jupyter kernel, and reads what it shows: for both hosts."""
