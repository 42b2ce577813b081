"""What a card tells of a call before it is approved: warnings, previews, hidden characters."""
