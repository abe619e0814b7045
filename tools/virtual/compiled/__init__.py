"""What a kernel's compiled forms say (TTGIR, PTX, SASS): layouts, barriers, registers. Nothing is executed."""
