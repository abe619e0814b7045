"""The strategy lab: strategies under equal budgets, paired, and the curves that tell them apart.

`study` runs and folds, `curve` draws, `simulated` stands in for a model and a judge where strategies
are studied by the thousand, `families` holds its problems, `real` runs true problems instead.
"""

from __future__ import annotations
