"""MuCon beyond the paper: settings and pure functions of options that are off by default.

The settings can be read without torch. `mucon.training` uses them in MuCon's steps.
"""
