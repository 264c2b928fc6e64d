"""Keys for SSH, made without its programs."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make_key(path: Path) -> str:
    """Write a new key without a passphrase; its public half, as in ``authorized_keys``, which is
    also in the file ``.pub`` beside it."""
    key = Ed25519PrivateKey.generate()
    _write(path, key, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public)
    return public.decode()


def lock_key(source: Path, target: Path, passphrase: str) -> None:
    """Write the key in ``source`` with a passphrase."""
    key = s.load_ssh_private_key(source.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    _write(target, key, s.BestAvailableEncryption(passphrase.encode()))


def _write(path: Path, key: Ed25519PrivateKey, encryption: s.KeySerializationEncryption) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, encryption))
