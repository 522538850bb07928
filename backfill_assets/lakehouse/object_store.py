"""An S3-compatible store as the environment describes it. Clients read credentials there: no option, log or plan has
them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backfill_assets.errors import LakehouseUnusable

if TYPE_CHECKING:
    from pyarrow import fs

S3 = "s3://"
_ENVIRONMENT_PROVIDER = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"


@dataclass(frozen=True)
class ObjectStore:
    """An empty ``endpoint`` is Amazon's; ``http://`` means no encryption."""

    endpoint: str = ""
    region: str = "us-east-1"
    keys_in_environment: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> ObjectStore:
        env = os.environ if environ is None else environ
        region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or cls.region
        return cls(env.get("AWS_ENDPOINT_URL", ""), region, bool(env.get("AWS_ACCESS_KEY_ID")))

    @property
    def encrypted(self) -> bool:
        return not self.endpoint.startswith("http://")

    def delta_rs_options(self) -> dict[str, str]:
        """Puts are conditional: of two commits of one version one is refused."""
        options = {"AWS_REGION": self.region, "conditional_put": "etag"}
        if self.endpoint:
            options["AWS_ENDPOINT_URL"] = self.endpoint
        return options if self.encrypted else options | {"AWS_ALLOW_HTTP": "true"}

    def spark_options(self) -> dict[str, str]:
        hadoop = {"endpoint.region": self.region, "path.style.access": "true" if self.endpoint else "false"}
        if self.endpoint:
            secure = {"endpoint": self.endpoint, "connection.ssl.enabled": str(self.encrypted).lower()}
            hadoop |= secure
        if self.keys_in_environment:
            hadoop["aws.credentials.provider"] = _ENVIRONMENT_PROVIDER
        return {f"spark.hadoop.fs.s3a.{key}": value for key, value in hadoop.items()}

    def filesystem(self) -> fs.FileSystem:
        """Keeps the credentials of the first call."""
        return _filesystem(self)

    def put_if_absent(self, url: str, data: bytes) -> bool:
        """``s3://bucket/key``; False if it exists. The server decides races."""
        try:
            import obstore
            from obstore.exceptions import AlreadyExistsError
            from obstore.store import S3Store
        except ImportError as error:
            hint = "Install it: pip install 'backfill-assets[s3]'"
            raise LakehouseUnusable("An S3 lakehouse needs the package obstore.", hint=hint) from error
        address = urlsplit(url)
        known: dict[str, Any] = {"endpoint": self.endpoint} if self.endpoint else {}
        client = {"allow_http": not self.encrypted}
        store = S3Store(address.netloc, region=self.region, client_options=client, **known)  # type: ignore[arg-type]
        try:
            obstore.put(store, address.path.lstrip("/"), data, mode="create")
        except AlreadyExistsError:
            return False
        return True


@cache
def _filesystem(store: ObjectStore) -> fs.FileSystem:
    from pyarrow import fs

    scheme = "https" if store.encrypted else "http"
    return fs.S3FileSystem(
        region=store.region, scheme=scheme, endpoint_override=urlsplit(store.endpoint).netloc or None
    )


def spark_address(uri: str) -> str:
    return f"s3a://{uri.removeprefix(S3)}" if uri.startswith(S3) else uri
