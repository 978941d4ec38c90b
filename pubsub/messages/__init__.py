"""The messages of topics, their bytes, and the events and epochs that subscribers make of them."""
