"""The base class of streams, and the division of operators' state among workers."""
