"""The training steps that a candidate is judged on (`--train`), and their upstream gradients."""
