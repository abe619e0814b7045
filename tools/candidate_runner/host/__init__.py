"""What a forward does on the host: values it reads, lines of Python it runs, and their time."""
