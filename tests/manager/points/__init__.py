"""Managers that die or stop at named points of their work, in processes of their own."""
