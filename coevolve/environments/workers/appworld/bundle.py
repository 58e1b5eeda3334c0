"""The official AppWorld data: fetching the bundle, and unpacking one, with the package's constants.

    appworld.bundle download FILE        from the address that the package names
    appworld.bundle unpack BUNDLE ROOT   writes ROOT/data

The package's own command deletes what is there before it downloads, ends with success when it gets
nothing, and cannot take a bundle that the user has; this one does none of that. An error is one
line on stderr and exit code 1.
"""

from __future__ import annotations

import os
import shutil
import sys
import urllib.error
import urllib.request

BUNDLE = "data-0.1.0.bundle"
TIMEOUT_SECONDS = 60


def download(target: str) -> None:
    from appworld.download import S3_BASE_URL

    address, part = S3_BASE_URL + BUNDLE, f"{target}.part"
    try:
        with (
            urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer,
            open(part, "wb") as stream,
        ):
            shutil.copyfileobj(answer, stream)
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        sys.exit(
            f"cannot download {address} ({reason}); fetch the bundle elsewhere and run: "
            "coevolve env install appworld --data BUNDLE"
        )
    os.replace(part, target)


def unpack(bundle: str, root: str) -> None:
    import zipfile

    from appworld.common.constants import PASSWORD, SALT
    from appworld.common.utils import unpack_bundle

    try:
        unpack_bundle(bundle_file_path=bundle, base_directory=root, password=PASSWORD, salt=SALT)
    except (ValueError, zipfile.BadZipFile):
        sys.exit(f"{bundle} is no whole bundle of AppWorld (half downloaded?)")


def main(what: str, *paths: str) -> None:
    {"download": download, "unpack": unpack}[what](*paths)
