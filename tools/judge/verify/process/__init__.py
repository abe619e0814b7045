"""The candidate's process as the judge has it: started, asked and limited, and what comes out of it."""
