"""Walls around a command: `room` says what it may touch, `probe` which walls there are, `inside` puts it there."""
