"""The one error of this package."""


class EngineError(Exception):
    """Something the user can act on: shown as it is, without a traceback."""
