"""Walls around a command: `room` says what it may touch, `probe` which walls this machine has, `inside` puts it there."""
