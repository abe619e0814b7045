"""The storages of tensors on the device: where they lie, what fresh ones hold, how they get to the executor."""
