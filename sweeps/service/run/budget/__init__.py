"""Budgets of a sweep: limits, what trials have used, and which trials the rest of the budget covers."""
