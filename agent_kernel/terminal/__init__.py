"""`agent-kernel chat`: a client in a terminal, which listens to server-sent events and acts by HTTP routes."""
