"""A run from outside: its beginning and end, its place in the queue, parked, stopped, recovered, tried again."""
