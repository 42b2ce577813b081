"""The life of a run as a whole: queue, beginning and end, stop, suspension, recovery, retry."""
