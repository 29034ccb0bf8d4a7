"""Policies, spending, the audit log and the removal of texts, in SQL."""
