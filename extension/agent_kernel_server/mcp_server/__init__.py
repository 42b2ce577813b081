"""The server's kernels and notebooks for agents outside, by the Model Context Protocol. `route` is where requests come
in; the `mcp` package is imported with the first one."""
