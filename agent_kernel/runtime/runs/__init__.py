"""A run from outside: its beginning and end, its place in the queue, suspended, stopped, recovered, tried again."""
