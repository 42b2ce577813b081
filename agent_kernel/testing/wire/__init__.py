"""Encoders of turns as services send them, with the deviations of real servers: one module for each API."""
