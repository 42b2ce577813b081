"""The built-in tools: their declarations, and the functions that run in the kernel."""
