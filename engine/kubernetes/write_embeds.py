"""Writes the two files that the Kubernetes provider embeds, from those of its module.

Runs in a scratch copy of this folder. A release build makes them the same way: the schema with its version
filled in, both without white space.
"""

import json
import os
import subprocess
from pathlib import Path

MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"


def main() -> None:
    """Reads the provider's folder in the module cache, writes into the working directory."""
    subprocess.run(["go", "mod", "download", MODULE], check=True)
    folder = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE], check=True, stdout=subprocess.PIPE, text=True
    )
    provider = Path(folder.stdout.strip()) / "cmd" / "pulumi-resource-kubernetes"
    schema = json.loads((provider / "schema.json").read_text())
    schema["version"] = os.environ["PART_VERSION"]
    mapping = json.loads((provider / "terraform-mapping.json").read_text())
    Path("schema-embed.json").write_text(json.dumps(schema, separators=(",", ":")))
    Path("terraform-mapping-embed.json").write_text(json.dumps(mapping, separators=(",", ":")))


if __name__ == "__main__":
    main()
