"""The two hosts of a run, served and embedded, how one is chosen, and the live view of a run in its cell."""
