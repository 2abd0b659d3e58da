"""Checks that a stack has resources: without any, there is nothing to compare, measure or destroy."""

import argparse
import sys

from engine.one_lab import is_made


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if the stack has resources; otherwise prints the command that makes it, and returns 1."""
    parser = argparse.ArgumentParser(prog="python -m engine.made", description=__doc__)
    parser.add_argument("stack", metavar="STACK", help="stack whose resources to look for")
    stack = parser.parse_args(arguments).stack
    if is_made(stack):
        return 0
    sys.stderr.write(f"stack {stack} has not been made yet: make up STACK={stack} makes it\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
