"""The kernel's side of Agent Kernel: its state, the link to the server, cells, waiting for runs, interrupts."""
