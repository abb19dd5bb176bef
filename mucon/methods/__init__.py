"""The methods: a file or folder each, with a configuration, training and loading.

A method may use the network or the loss of another one, but not its learner.
"""

from mucon.methods.table import METHODS, method_named

__all__ = ["METHODS", "method_named"]
