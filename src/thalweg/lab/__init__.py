"""What the papers measured, run again: experiments, their claims, and what came out."""
