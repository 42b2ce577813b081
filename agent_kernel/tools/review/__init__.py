"""Reads calls before they are approved, without running anything: warnings, previews, hidden characters."""
