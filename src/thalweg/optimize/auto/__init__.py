"""auto: which of the policies pays."""
