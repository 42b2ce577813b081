"""Contenders: each drives the same conversation through one library. One contender lives in one process."""
