"""From a module and its inputs to the program that Inductor writes: traced without its values."""
