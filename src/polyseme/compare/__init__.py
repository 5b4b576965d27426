"""Every family on one corpus and one budget, and what that says."""
