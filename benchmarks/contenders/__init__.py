"""Contenders: each runs the same conversation through one library, in a process of its own."""
