"""Timestamp tokens, sets of them, and the ledger that counts them."""
