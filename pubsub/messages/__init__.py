"""The messages of topics, their encoding, and the events and epochs that subscribers make from them."""
