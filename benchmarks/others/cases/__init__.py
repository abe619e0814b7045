"""Which kernels of which project are judged, a module for each project."""
