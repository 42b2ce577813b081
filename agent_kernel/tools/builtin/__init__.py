"""The built-in tools: declarations, and the functions that run in the kernel."""
