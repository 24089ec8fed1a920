"""Classes: a route for each class of rows."""
