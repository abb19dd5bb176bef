"""Named points where tests inject real failures; shared with `storage`."""

from storage.failpoints import reach

__all__ = ["reach"]
