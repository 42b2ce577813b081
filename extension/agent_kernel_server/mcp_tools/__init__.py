"""Tools of MCP servers: their configuration, the servers' processes and connections, and calls of their tools."""
