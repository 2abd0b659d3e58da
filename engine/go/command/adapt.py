"""Copies the pinned library for providers to ./upstream and adapts it to the CLI's version of the schema's types.

There, a package may have no provider, so the one of its schema is a pointer.
"""

from engine.upstream import copy, edit


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    library = copy("github.com/pulumi/pulumi-go-provider")
    edit(library / "middleware/schema/schema.go", [("pkg.Provider = prov\n", "pkg.Provider = &prov\n")])


if __name__ == "__main__":
    main()
