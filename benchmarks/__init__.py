"""What `make bench` measures."""
