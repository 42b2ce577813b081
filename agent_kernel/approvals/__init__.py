"""Who may run what: `policy` judges a call by rules, `broker` holds the futures of calls that wait for a person."""
