"""Build the package of recipe.yaml with rattler-build, and run its tests.

``python conda/build.py FOLDER CHANNEL...`` writes a channel with the package into a folder. Its
requirements come from the channels.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rattler_build import BuildError, Stage0Recipe, ToolConfiguration
from rattler_build.progress import SimpleProgressCallback

RECIPE = Path(__file__).with_name("recipe.yaml")


def main(folder: str, *channels: str) -> int:
    """Build, print the packages' paths, and return the exit code."""
    try:
        built = Stage0Recipe.from_file(RECIPE).run_build(
            # The tests of a package that is for every system too.
            tool_config=ToolConfiguration(test_strategy="native"),
            output_dir=Path(folder).resolve(),
            channels=list(channels),
            progress_callback=SimpleProgressCallback(),
        )
    except BuildError as error:
        sys.stderr.write(f"conda: {error}; channels: {', '.join(channels)}\n")
        return 1
    print("\n".join(str(package) for each in built for package in each.packages))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
