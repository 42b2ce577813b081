"""The life of a run as a whole: queue, beginning and end, stop, recovery, another try."""
