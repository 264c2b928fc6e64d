"""Pods as nodes: their start, their end, and the connection to the agent in one.

The connection is a two-way exec that is kept open: the program at its other end passes everything
on to the agent's socket. After a lost connection another one is opened. The agent recognises a
repeated request.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from kubernetes.stream.ws_client import (
    ERROR_CHANNEL,
    STDERR_CHANNEL,
    STDIN_CHANNEL,
    STDOUT_CHANNEL,
    create_websocket,
    get_websocket_url,
)
from websocket import WebSocket, WebSocketException, WebSocketTimeoutException

from ackproof.infra.agent.wire import Wire
from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.cluster import ANSWERS_WITHIN_S, Refusal, answered
from ackproof.infra.backends.kubernetes.manifests import (
    AGENT_CONNECTION,
    CONTAINER,
    ENDED,
    Manifest,
)
from ackproof.infra.machine.waiting import wait_until

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

T = TypeVar("T")

_STARTS_WITHIN_S = 300.0
_UNPLACED_S = 60.0
"""The time for a place in the cluster: an autoscaler may make one."""
_ENDS_WITHIN_S = 60.0
_GRACE_S = 1
_PATIENCE_S = 30.0
_EVERY_S = 0.3
HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""The reasons of a waiting container that time does not remove."""
_NO_STATUS = 126
_LOST = (OSError, EOFError, WebSocketException, ValueError)


class Pods:
    """The pods of a namespace. Every method raises InfraError if the cluster refuses it or does not
    answer.

    Args:
        client: A client with the rights of the run's account.
    """

    def __init__(self, client: "ApiClient", namespace: str) -> None:
        from kubernetes.client import CoreV1Api

        self.client = client
        self.namespace = namespace
        self.core = CoreV1Api(client)

    def create(self, pod: Manifest) -> str:
        """Create a pod, wait until its container runs, and return its address.

        Raises InfraError with the reason if it does not run.
        """
        name = pod["metadata"]["name"]
        with answered(f"the cluster refuses the pod of {name}"):
            self.core.create_namespaced_pod(self.namespace, pod, _request_timeout=ANSWERS_WITHIN_S)
        begun = time.monotonic()
        found: list[str] = []

        def runs() -> bool:
            seen = self.read(name)
            found[:] = [_waits_for(seen)]
            if _has_failed(seen, time.monotonic() - begun):
                raise InfraError(f"the pod of {name} does not start: {found[0]}")
            return _is_running(seen)

        try:
            wait_until(runs, _STARTS_WITHIN_S, name, _EVERY_S)
        except TimeoutError as error:
            raise InfraError(
                f"the pod of {name} did not start within {_STARTS_WITHIN_S:g} s: {found[0]}"
            ) from error
        return str(self.read(name).status.pod_ip)

    def read(self, name: str) -> Any:
        """Return a pod (``V1Pod``). Raises Refusal with the status 404 if there is none."""
        with answered(f"the pod of {name}"):
            return self.core.read_namespaced_pod(
                name, self.namespace, _request_timeout=ANSWERS_WITHIN_S
            )

    def exists(self, name: str) -> bool:
        """Return whether there is a pod of that name."""
        try:
            self.read(name)
        except Refusal as refusal:
            if refusal.status == 404:
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """Delete a pod with its files, and wait until it is gone."""
        try:
            with answered(f"cannot remove the pod of {name}"):
                self.core.delete_namespaced_pod(
                    name,
                    self.namespace,
                    grace_period_seconds=_GRACE_S,
                    _request_timeout=ANSWERS_WITHIN_S,
                )
            wait_until(lambda: not self.exists(name), _ENDS_WITHIN_S, f"the end of {name}", 0.1)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
        except TimeoutError as error:
            raise InfraError(str(error)) from error

    def last_words(self, name: str) -> str | None:
        """Return None while the container runs, and then the end of its output."""
        try:
            if self.read(name).status.phase not in ENDED:
                return None
            with answered():
                output: str = self.core.read_namespaced_pod_log(
                    name, self.namespace, tail_lines=10, _request_timeout=ANSWERS_WITHIN_S
                )
        except Refusal as refusal:
            return "" if refusal.status == 404 else str(refusal)
        return output

    def execute(
        self, name: str, command: Sequence[str], container: str = CONTAINER
    ) -> "ExecStream":
        """Start a program in a pod, and return the stream to its standard input and output.

        Raises OSError or WebSocketException if the cluster refuses it or does not answer.
        """
        place = f"/api/v1/namespaces/{quote(self.namespace)}/pods/{quote(name)}/exec"
        query = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query += [("container", container), *(("command", word) for word in command)]
        configuration = self.client.configuration
        token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        url = get_websocket_url(f"{configuration.host}{place}", query)
        return ExecStream(create_websocket(configuration, url, {"authorization": token}))


def _is_running(pod: Any) -> bool:
    statuses = pod.status.container_statuses or ()
    return bool(pod.status.pod_ip) and any(one.state.running for one in statuses)


def _has_failed(pod: Any, waited_s: float) -> bool:
    """Return whether a pod will not start, however long it is waited for."""
    if pod.status.phase in ENDED:
        return True
    waiting = [one.state.waiting for one in pod.status.container_statuses or ()]
    if any(one is not None and one.reason in HOPELESS for one in waiting):
        return True
    unplaced = any(
        one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions or ()
    )
    return unplaced and waited_s > _UNPLACED_S


def _waits_for(pod: Any) -> str:
    """Return what the cluster says about a pod that does not run yet, or has ended."""
    said = [pod.status.message]
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            said.append(condition.message)
    for container in pod.status.container_statuses or ():
        state = container.state.waiting or container.state.terminated
        if state is not None:
            said.append(" ".join(filter(None, (state.reason, state.message))))
    return "; ".join(filter(None, said)) or str(pod.status.phase)


# --- the connection to an agent ---------------------------------------------------------------


class ExecStream:
    """An ``infra.agent.wire.Stream`` to the standard input and output of a program in a pod.

    Kubernetes sends each frame with the number of its channel before it.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._unread = b""

    def sendall(self, data: bytes, /) -> None:
        self._websocket.send_binary(bytes([STDIN_CHANNEL]) + data)

    def recv(self, size: int, /) -> bytes:
        """Return the next bytes of the output; nothing at its end.

        Raises TimeoutError, and ConnectionError with the reason if the program could not be
        started or has failed.
        """
        while not self._unread:
            frame = self.frame()
            if frame is None:
                return b""
            channel, data = frame
            if channel == STDOUT_CHANNEL:
                self._unread = data
            elif channel == ERROR_CHANNEL:
                raise ConnectionError(_said_of_end(data))
        part, self._unread = self._unread[:size], self._unread[size:]
        return part

    def frame(self) -> tuple[int, bytes] | None:
        """Return the number and the data of the next frame, or None at the end of the stream.

        Raises TimeoutError.
        """
        try:
            frame = self._websocket.recv()
        except WebSocketTimeoutException as error:
            raise TimeoutError("no answer in time") from error
        data = frame.encode() if isinstance(frame, str) else frame
        return (data[0], data[1:]) if data else None

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the data of each frame until the end of the stream."""
        while (frame := self.frame()) is not None:
            yield frame

    def finish(self) -> tuple[int, str]:
        """Return the exit status of the program and all its output, once it has ended, and close
        the stream. The status is 126 if it was not started. Raises TimeoutError."""
        output, status = bytearray(), _NO_STATUS
        for channel, data in self.frames():
            if channel == ERROR_CHANNEL:
                status, words = exit_status(data)
                output += words.encode()
                break
            if channel in (STDOUT_CHANNEL, STDERR_CHANNEL):
                output += data
        self.close()
        return status, output.decode(errors="replace")

    def settimeout(self, seconds: float | None, /) -> None:
        self._websocket.settimeout(seconds)

    def close(self) -> None:
        self._websocket.close(timeout=0)


def exit_status(status: bytes) -> tuple[int, str]:
    """Return the exit status of an exec by its last frame, and the words if it was not started."""
    told = json.loads(status)
    if told.get("status") == "Success":
        return 0, ""
    for cause in told.get("details", {}).get("causes", ()):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"]), ""
    return _NO_STATUS, str(told.get("message") or "it was not started")


def _said_of_end(status: bytes) -> str:
    try:
        return str(json.loads(status).get("message") or "the program has ended")
    except ValueError:
        return "the program has ended"


class PodConnection:
    """An ``infra.node.agent_client.AgentConnection`` to the agent of a pod.

    Args:
        command: The program that connects with the agent, in the container of that name.
        gone: Returns why the agent cannot answer any more, or None while it may; raises NodeGone
            if nothing of the node is left. Without it, the agent is the pod's first process.
    """

    def __init__(
        self,
        pods: Pods,
        name: str,
        command: Sequence[str] = AGENT_CONNECTION,
        container: str = CONTAINER,
        gone: Callable[[], str | None] | None = None,
    ) -> None:
        self._pods = pods
        self._name = name
        self._command, self._container = command, container
        self._gone = gone or self._first_process_gone
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._closed = False

    def use(self, act: Callable[[Wire], T], timeout: float) -> T:
        results: list[T] = []
        reasons: list[str] = []

        def attempt() -> bool:
            try:
                results.append(self._once(act, timeout))
            except TimeoutError as error:
                raise InfraError(f"{self._name} does not answer: {error}") from error
            except _LOST as error:
                reasons.append(str(error) or type(error).__name__)
                self._check_lives()
                return False
            return True

        try:
            wait_until(attempt, _PATIENCE_S, self._name, _EVERY_S)
        except TimeoutError:
            raise InfraError(f"{self._name} cannot be reached: {reasons[-1]}") from None
        return results[0]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def _once(self, act: Callable[[Wire], T], timeout: float) -> T:
        wire = self._take()
        try:
            wire.stream.settimeout(timeout)
            result = act(wire)
        except BaseException:
            wire.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(wire)
                return result
        wire.close()
        return result

    def _take(self) -> Wire:
        with self._lock:
            if self._closed:
                raise InfraError(f"{self._name} is closed")
            if self._idle:
                return self._idle.pop()
        return Wire(self._pods.execute(self._name, self._command, self._container))

    def _check_lives(self) -> None:
        if (reason := self._gone()) is not None:
            raise InfraError(reason)

    def _first_process_gone(self) -> str | None:
        words = self._pods.last_words(self._name)
        if words is None:
            return None
        gone = f"the agent of {self._name} and every process below it are gone"
        return f"{gone}; its last output: {words.strip() or '(none)'}"
