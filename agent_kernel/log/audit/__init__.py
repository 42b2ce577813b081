"""The audit trail: `chain` hashes and checks entries, `entries` says what stands in each, `head` keeps its end."""
