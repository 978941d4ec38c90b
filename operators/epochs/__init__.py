"""What is made of whole epochs, and kept from one to the next."""
