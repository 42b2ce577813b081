"""What services send, byte by byte: one module for each API, with the ways in which servers get it wrong."""
