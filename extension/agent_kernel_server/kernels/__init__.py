"""The server's side of the kernel link: hearing kernels, and having their executor does approved calls."""
