"""The one error of this package."""


class EngineError(Exception):
    """An error that you can act on; shown without a traceback."""
