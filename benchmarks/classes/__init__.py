"""What many classes cost: time per batch outside operators, with 1 to 64 routes."""
