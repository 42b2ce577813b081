"""What a run is while it goes. Nothing here imports from the rest of `runtime` but its settings."""
