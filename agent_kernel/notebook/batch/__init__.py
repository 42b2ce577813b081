"""Runs notebooks without a page, each in a kernel of its own, for `agent-kernel run`."""
