"""Whether a candidate's answers are right: its process, the comparison, and what is wrong with a wrong one."""
