"""The state of a run while it goes. Imports nothing of the rest of `runtime` but its settings."""
