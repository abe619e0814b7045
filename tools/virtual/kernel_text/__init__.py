"""What is found in a kernel's text before it runs, so that its conditions and operations can be noted."""
