"""Timestamp tokens, sets of tokens, and the ledger that counts tokens."""
