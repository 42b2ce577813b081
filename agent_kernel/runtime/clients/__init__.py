"""What clients are told: committed events as exact streams, and snapshots."""
