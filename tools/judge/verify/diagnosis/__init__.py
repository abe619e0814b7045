"""What is wrong with a wrong result, in words that never hold the right one."""
