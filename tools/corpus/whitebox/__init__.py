"""Candidates by people who had read the judge, and their honest twins, by what they exploit."""
