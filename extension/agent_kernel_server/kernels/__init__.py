"""The server's side of the kernel link: receives what kernels announce, and has their executors run approved calls."""
