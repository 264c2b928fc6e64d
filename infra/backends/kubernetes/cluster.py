"""The cluster: whether it can serve, what it grants, and the namespace of a run in it.

The kubeconfig names the cluster, as for kubectl (``KUBECONFIG``, else ``~/.kube/config``); in a pod
it is the pod's own. Its user makes the namespace of a run. Everything else is done by an account
that has rights in this namespace alone.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes import manifests
from ackproof.infra.backends.kubernetes.manifests import PodSettings
from ackproof.infra.machine.waiting import wait_until

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

IMAGE = "ACKPROOF_KUBERNETES_IMAGE"
STORAGE_CLASS = "ACKPROOF_KUBERNETES_STORAGE_CLASS"
CPU = "ACKPROOF_KUBERNETES_CPU"
MEMORY = "ACKPROOF_KUBERNETES_MEMORY"
"""The environment variables of the settings of pods."""
OWNER_ROLE = "ACKPROOF_KUBERNETES_OWNER"
"""The environment variable that names a ClusterRole with which the namespaces of runs go."""

ANSWERS_WITHIN_S = 30.0
"""The time limit for one answer of the API server, in seconds."""
_TRIAL_S = 5.0
_GRANTED_WITHIN_S = 30.0
_GONE_WITHIN_S = 120.0
_TOKEN_S = 3600
_IN_A_POD = "KUBERNETES_SERVICE_HOST"
_NO_IMAGE = (
    f"{IMAGE} names no image of a node. Build it with make docker-image, give it a name in a "
    f"registry that the cluster reaches (docker tag, docker push), and export {IMAGE}=NAME"
)


def unavailable() -> str | None:
    """Return what is missing for the backend and the remedy, or None if it works here."""
    if not os.environ.get(IMAGE):
        return _NO_IMAGE
    return unreachable()


def unreachable() -> str | None:
    """Return why no cluster answers, or None if one does."""
    if not _is_configured():
        return "no kubeconfig names a cluster: export KUBECONFIG=FILE, or make ~/.kube/config"
    try:
        with connected() as client, answered():
            from kubernetes.client import VersionApi

            VersionApi(client).get_code(_request_timeout=_TRIAL_S)
    except InfraError as error:
        return str(error)
    return None


def settings_from_environment(*, privileged: bool) -> PodSettings:
    """Return the settings of pods by the environment variables. Raises InfraError without an
    image."""
    image = os.environ.get(IMAGE)
    if not image:
        raise InfraError(_NO_IMAGE)
    given = {"cpu": os.environ.get(CPU), "memory": os.environ.get(MEMORY)}
    return PodSettings(
        image=image,
        storage_class=os.environ.get(STORAGE_CLASS) or None,
        resources={name: value for name, value in given.items() if value},
        privileged=privileged,
    )


@contextmanager
def connected(kubeconfig: str = "", context: str | None = None) -> "Iterator[ApiClient]":
    """Yield a client with the rights of the kubeconfig's user, and close it at the end.

    Args:
        kubeconfig: The files that are the kubeconfig; empty for those of the environment.
        context: The context in it; None for its current one.

    Raises InfraError for a missing or damaged kubeconfig.
    """
    # The library takes a second to import.
    from kubernetes import config
    from kubernetes.client import ApiClient, Configuration

    own = Configuration()
    try:
        named = kubeconfig or kubeconfig_files()
        if not _exists(named) and os.environ.get(_IN_A_POD):
            config.load_incluster_config(client_configuration=own)
        else:
            # The library itself reads the variable once, when it is imported.
            config.load_kube_config(named, context, client_configuration=own)
    except (config.ConfigException, OSError, ValueError, TypeError) as error:
        raise InfraError(f"the kubeconfig cannot be used: {error}") from error
    client = _client(own, ApiClient)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def answered(what: str = "the cluster") -> Iterator[None]:
    """Raise InfraError for an error of the API server, with its own reason, and for no answer.

    ``what`` begins the message.
    """
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise Refusal(f"{what}: {_reason(error)}", error.status or 0) from error
    except (HTTPError, OSError) as error:
        raise InfraError(f"{what}: the API server does not answer: {error}") from error


class Refusal(InfraError):
    """A refusal of the API server, with its HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RunNamespace:
    """The namespace of a run, made by the constructor, with its account.

    Attributes:
        client: A client with the rights of the account.

    Raises InfraError if the cluster refuses it. Nothing is left then.
    """

    def __init__(self, user: "ApiClient", name: str) -> None:
        from kubernetes.client import CoreV1Api

        self.name = name
        self._user = user
        self._expires = 0.0
        with answered(f"cannot make the namespace {name}"):
            CoreV1Api(user).create_namespace(
                manifests.namespace(name, _owner(user)), _request_timeout=ANSWERS_WITHIN_S
            )
        try:
            self._grant()
            self.client = self._as_account()
        except BaseException:
            delete(user, name)
            raise

    def close(self) -> None:
        """Remove the namespace with all that is in it, and wait until it is gone."""
        self.client.close()
        delete(self._user, self.name)

    def _grant(self) -> None:
        from kubernetes.client import CoreV1Api, RbacAuthorizationV1Api

        core, rights = CoreV1Api(self._user), RbacAuthorizationV1Api(self._user)
        limit: Mapping[str, Any] = {"_request_timeout": ANSWERS_WITHIN_S}
        with answered(f"cannot make an account in the namespace {self.name}"):
            core.create_namespaced_service_account(self.name, manifests.account(), **limit)
            rights.create_namespaced_role(self.name, manifests.role(), **limit)
            binding = manifests.role_binding(self.name)
            rights.create_namespaced_role_binding(self.name, binding, **limit)

    def _as_account(self) -> "ApiClient":
        """Return a client of the account, once the cluster knows its rights."""
        from kubernetes.client import ApiClient, Configuration, CoreV1Api

        user = self._user.configuration
        own = Configuration(host=user.host)
        own.ssl_ca_cert, own.verify_ssl = user.ssl_ca_cert, user.verify_ssl
        own.tls_server_name, own.assert_hostname = user.tls_server_name, user.assert_hostname
        own.proxy, own.no_proxy = user.proxy, user.no_proxy
        self._renew_token(own)  # the library asks the hook only where there is a token already
        own.refresh_api_key_hook = self._renew_token
        client = _client(own, ApiClient)

        def may() -> bool:
            try:
                with answered():
                    CoreV1Api(client).list_namespaced_pod(
                        self.name, _request_timeout=ANSWERS_WITHIN_S
                    )
            except Refusal:
                return False
            return True

        try:
            wait_until(may, _GRANTED_WITHIN_S, f"the rights of the account in {self.name}", 0.1)
        except TimeoutError as error:
            client.close()
            raise InfraError(str(error)) from error
        return client

    def _renew_token(self, configuration: "Configuration") -> None:
        """Give the account's client a new token when half of the old one's time is over."""
        from kubernetes.client import CoreV1Api

        if time.monotonic() < self._expires:
            return
        request = {"spec": {"expirationSeconds": _TOKEN_S, "audiences": []}}
        with answered(f"no token for the account in {self.name}"):
            answer = CoreV1Api(self._user).create_namespaced_service_account_token(
                manifests.ACCOUNT, self.name, request, _request_timeout=ANSWERS_WITHIN_S
            )
        configuration.api_key = {"authorization": f"Bearer {answer.status.token}"}
        self._expires = time.monotonic() + _TOKEN_S / 2


def _owner(user: "ApiClient") -> dict[str, Any] | None:
    """Return a reference to the ClusterRole that OWNER_ROLE names, or None without one."""
    from kubernetes.client import RbacAuthorizationV1Api

    name = os.environ.get(OWNER_ROLE)
    if not name:
        return None
    with answered(f"cannot read the ClusterRole {name} of {OWNER_ROLE}"):
        role = RbacAuthorizationV1Api(user).read_cluster_role(
            name, _request_timeout=ANSWERS_WITHIN_S
        )
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": name,
        "uid": role.metadata.uid,
    }


def delete(user: "ApiClient", name: str) -> None:
    """Delete a namespace with all that is in it, and wait until it is gone.

    Raises InfraError if it is not gone in time. One that is gone already is no error.
    """
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(user)

    def is_gone() -> bool:
        try:
            with answered(f"cannot remove the namespace {name}"):
                core.read_namespace(name, _request_timeout=ANSWERS_WITHIN_S)
        except Refusal as refusal:
            if refusal.status == 404:
                return True
            raise
        return False

    try:
        with answered(f"cannot remove the namespace {name}"):
            core.delete_namespace(name, _request_timeout=ANSWERS_WITHIN_S)
        wait_until(is_gone, _GONE_WITHIN_S, f"the end of the namespace {name}", 0.2)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
    except TimeoutError as error:
        raise InfraError(str(error)) from error


def grants(name: str) -> str:
    """Return what the cluster grants a run, after a trial in a namespace ``name`` that is removed
    again. Raises InfraError with the first thing that it refuses.

    No pod is started: a pod is only submitted for a check (dry run).
    """
    from kubernetes.client import CoreV1Api

    with connected() as user:
        made = RunNamespace(user, name)
        try:
            core = CoreV1Api(made.client)
            trial = PodSettings(image=os.environ.get(IMAGE) or "none", resources={})
            found = [f"pods with NET_ADMIN: {_admits(core, name, trial)}"]
            found.append(f"privileged: {_admits(core, name, replace(trial, privileged=True))}")
            with answered("cannot list quotas"):
                quotas = CoreV1Api(user).list_namespaced_resource_quota(
                    name, _request_timeout=ANSWERS_WITHIN_S
                )
            found += [f"quota {one.metadata.name}: {_amounts(one)}" for one in quotas.items]
        finally:
            made.close()
    return "\n".join(found)


def _admits(core: Any, name: str, settings: PodSettings) -> str:
    pod = manifests.pod("trial", name, settings)
    try:
        with answered():
            core.create_namespaced_pod(name, pod, dry_run="All", _request_timeout=ANSWERS_WITHIN_S)
    except Refusal as refusal:
        return f"refused ({refusal})"
    return "admitted"


def _amounts(quota: Any) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in (quota.spec.hard or {}).items())


def _client(configuration: "Configuration", make: "type[ApiClient]") -> "ApiClient":
    configuration.retries = False  # what must be tried again is, with a time limit
    return make(configuration)


def kubeconfig_files() -> str:
    """Return the absolute paths of the kubeconfig, whether the files exist or not."""
    named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return os.pathsep.join(str(Path(name).absolute()) for name in named.split(os.pathsep) if name)


def _exists(files: str) -> bool:
    return any(Path(name).is_file() for name in files.split(os.pathsep))


def _is_configured() -> bool:
    # An unset variable and no file are the state of most machines.
    return bool(
        _exists(kubeconfig_files()) or os.environ.get("KUBECONFIG") or os.environ.get(_IN_A_POD)
    )


def _reason(error: Any) -> str:
    """Return the API server's own words, with the causes, such as the name of a disruption
    budget."""
    try:
        told = json.loads(error.body)
        causes = (told.get("details") or {}).get("causes") or ()
        words = [str(one.get("message") or "") for one in causes]
        return " ".join([told["message"], *(one for one in words if one not in told["message"])])
    except (ValueError, TypeError, KeyError, AttributeError):
        return str(error.reason or error)
