"""Monitors: live conversations come in as traces, are sampled, scored whole, and watched."""
