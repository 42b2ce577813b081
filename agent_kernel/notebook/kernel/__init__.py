"""What this kernel holds of the agent: its state, the link to the server, and the mailbox of approved calls."""
