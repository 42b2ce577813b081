"""Sends committed events and snapshots to clients, and handles their commands."""
