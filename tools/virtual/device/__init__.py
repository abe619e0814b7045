"""What the runner's process has in the place of a GPU: driver, memory and the name `cuda`; kernels run in `executor`."""
