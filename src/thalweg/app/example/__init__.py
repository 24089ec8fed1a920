"""What `thalweg init` writes: an application that runs as it is."""
