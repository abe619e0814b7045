"""What is right at the executed sizes alone: candidates are run at the user's own, or as near to them as there is time for.

Belongs here: which larger inputs the reference can be asked for, and what of a candidate is run on them. Not here:
calls at the executed sizes (`verify`), or at sizes that are declared dynamic (`problem.trials`).
"""
