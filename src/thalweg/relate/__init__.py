"""What lives: results with a lifetime, and what is made of them."""
