"""Decides which calls may run: `policy` judges a call by rules, `broker` holds the futures of calls that wait."""
