"""What hosts can be asked besides what every node can."""

from ackproof.infra.agent.verbs import VERBS as AGENT
from ackproof.infra.agent.verbs import Verbs
from ackproof.infra.ssh.remote import addresses, software, tenancy

VERBS: Verbs = {
    **AGENT,
    "addresses": addresses.addresses,
    "has": software.has,
    "sums": software.sums,
    "allow_execution": software.allow_execution,
    "unpack": software.unpack,
    "install_libraries": software.install_libraries,
    "acquire": tenancy.acquire,
    "renew": tenancy.renew,
    "tenant": tenancy.tenant,
    "release": tenancy.release,
    "purge": tenancy.purge,
    "impair": tenancy.impair,
    "mend": tenancy.mend,
}
