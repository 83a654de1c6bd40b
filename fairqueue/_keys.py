"""The only place that spells Redis keys; operations spell ``K.kind(part)`` from it.

A key is ``{namespace:shard}:kind:part:part``. The braces keep a shard's keys on one Cluster
slot. Names are percent-encoded in a key, so that no two names can lead to the same key.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import quote, unquote

_is_plain = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
"""Whether a name stays as it is; this is a tenth of the time of ``quote``."""

_quoted = lru_cache(maxsize=1024)(partial(quote, safe="", errors="backslashreplace"))
"""An owner's name is in each of its calls."""

NO_TASK = "%"  # no name is encoded so


class Kind(NamedTuple):
    """One kind of key."""

    parts: tuple[str, ...]
    type: str
    """As Redis names it."""
    holds: str
    goes: str
    """What takes it away."""


def _kinds(table: str) -> dict[str, Kind]:
    rows = table.strip().replace("\n ", " ").splitlines()
    cells = [[" ".join(cell.split()) for cell in row.split(" | ")] for row in rows]
    named = [(name.split(" "), rest) for name, *rest in cells]
    return {name: Kind(tuple(parts), *rest) for (name, *parts), rest in named}


KINDS = _kinds("""
shard | hash | `record`: the shard's own numbers and marks; `queue:…`: its record as a node;
  `queues`: their names; `across:…`: `seen offset idle`, how the queue stands beside other shards;
  `tasks`: sum and count of all; `owner:…`: until when, its last call number, and the reply;
  `settings`: what concerns many of `limits`; `shards`, how many there are, if several: `3.1>5.2`
  while that changes; `rebuild`: how far it has come; `retention` of dead
  letters; `imports_suspended` until then; for 30 days each: `task:…`, average in µs, and
  when it was last named or ended; `unnamed:task`, its jobs that named no workspace, and when
  last; `kind:queue`, `task` or `plain` (bypasses the core), and when declared; `places:scope`,
  `workspace waiting wanted until …` of a queue or the total (`*`), 64 at most; since the store
  began: `leases_expired`, `dead_…`, `ticks_…` | rebuild: a queue unused for a
  day, an owner in time
moved | hash | workspace: the shard to which it went; `>3 since` while it moves, see below;
  `+workspace`: lives here; `@workspace`: a parent; `!`: all have moved; `''`: the process
  that moves them | with the change; of groups, when it comes back
workspaces | hash | workspace: where it stands in each node, its timer, its estimates
  | with its last flow and its timer
inner_nodes | hash | inner node: its record, and where it stands in the node above
  | with its last member, once F ≤ V
shared_limits | hash | shared limit: why it is closed, its rate, its timer, its walk
  | once it is open and its rate is over
limits | hash | `source:scope:name`: limits as `name=value`; `configured`: a digest, or `-`; marks
  `reserves`, `moves`, `forwards`
  | when an operator, a configuration or the provider takes them away
stored_by | hash | field of `limits`: when it was stored, and by which process | with that field
indexed_tasks | hash | task that has or had a limit: `all` if each of its leases has its slots,
  else `new` | rebuild: no limit, lease and node of it
asked | zset | workspace, by when the limit provider was asked
  | an hour later, once the workspace has nothing
expiry | zset | fence, by lease end | with its lease
progress | hash | fence: `current total message time` of the running job's last report; `!fence`:
  the job whose result it awaits in vain | three others looked at with each; rebuild: no lease
leases | hash | fence: its lease's record | when it ends
task_rates | zset | `workspace:task`, by the tat of its rate there
  | once passed: two with each start; rebuild
timer | zset | workspace or shared limit, by when time next brings it something
  | with what it is for
counts | hash | workspace: `lost=n` early-acked jobs that died with their worker, what observed
  limits would have done, and when last | rebuild: 30 days later; when observing begins or ends
dead_workspaces | zset | workspace with dead letters, by its oldest; `!workspace` with notices,
  `!!workspace` with steps
  | with the last letter
unique | hash | `workspace:task:key`: its queue and job, and until when (0: its life);
  `workspace::id`: the job of this framework id, if that differs; `@group`: until when its jobs meet
  no capacity
  | three looked at with each new one; rebuild
set_aside | hash | `kind name`: when, and the text of what could not be read; `#kind`: how many
  | an operator; 1,000 at most
workers | hash | owner: `seen digest` and JSON, `lease_seconds` 0 if it stopped; `#digest`: its
  app and tasks, as JSON
  | rebuild: a day after its last sign of life; no owner tells it
activity seconds window | hash | `workspace queue task`: what happened to its jobs in a
  minute or an hour, packed; `*`: several; 200 at most | expires
noted what | list | last of `jobs`, which have ended, or `acts` of operators, newest first | never
requests | zset | ticket in flight, by lease end; one that waits, by the negative
  | with its request; lease end
request_turns | zset | `turn:workspace` below its limit, by requests in flight + 1 per weight
  | with its last waiting request
schedule_times | zset | `runner workspace schedule`, by when a worker looks; `inf`: paused
  | with its schedule
confirmed | string | touched before each wait for replicas | expires
ready node | zset | `arrival:workspace` or `arrival:inner node`, by finish tag | with its members
reserved node | zset | those of them below their reserve, by the same tags | with its members
indebted node | zset | workspace or inner node that is idle with debt, by F | once F ≤ V
jobs queue | hash | job: record of a waiting, scheduled or running job | with its jobs
token queue | list | at most one wake-up | when nothing is ready; with its queue
permit_token queue | list | at most one, for owners that were refused a permit
  | when one takes it or is refused
permits scope name | zset | permit, by its end, at the limit's home; tat of its rate, and
  `turn:since:until` of each refused, by -1
  | expires
slots_of_queue queue | hash | running job: fence | with its leases
unreported queue | zset | `workspace job` of a dead letter, `!workspace job` of a cancelled one,
  by when a worker may take its notice | when reported; with its letter
slots level | set | fences at a workspace, at `@group`, and, of a task that has or had a limit, at
  `/task` and `workspace/task` | with its leases
nodes_of_shared_limit shared_limit | set | the nodes that it closes | with its nodes
scheduled workspace | zset | `queue priority task:id`, by when it is due | with its jobs
expiring workspace | zset | `queue priority task:id` of waiting jobs, by when they expire
  | with its jobs
dead_letters workspace | hash | job: dead letter; under `!workspace` what is kept for its notice,
  under `!!workspace` a task's finished steps
  | retention, `replay`, `purge`; when reported
dead_letters_by_age workspace | zset | job, by when it died | with its letters
requests_of_workspace workspace | zset | ticket: 0 in flight, else its turn; `turn`: the negative
  turn of the workspace while it waits | with its requests
schedules workspace | hash | schedule: its record | when removed; undeclared for 30 s
limits_with what | set | fields of `limits` with a `capacity`, `wide_capacity`, `reserves`, of
  `workspaces`, `queues`, `tasks`, `pauses`, `configured` | with those fields
lane workspace lane_key priority | list | `task:id`, the head first | with its last job
returned workspace lane_key priority | zset | `task:id` that came back, by its first fence
  | with its jobs
holes workspace lane_key priority | hash | element that is a hole: how often
  | at an end of the lane; with its last job
ended window | set | jobs that ended in this minute; `@group` admitted without a capacity
  | unlinked after two minutes
""")
"""Each kind of key: its name and parts, its type, what it holds, and what takes it away.

docs/architecture/keys.md has them as a table, which its test writes.
"""

LAYOUT = {kind: of.parts for kind, of in KINDS.items()}
TYPES = {kind: of.type for kind, of in KINDS.items()}


def encode(name: str) -> str:
    r"""Percent-encode a name or text for use in a key or a packed record.

    A lone surrogate, as in the error about a file whose name is not UTF-8, becomes ``\udc80``.
    """
    return name if _is_plain(name) else _quoted(name)


def encode_task(name: str) -> str:
    """Encode the name of a task; a job may have none."""
    return encode(name) or NO_TASK


def encode_in(scope: str, name: str) -> str:
    """Encode a name of this scope."""
    return encode_task(name) if scope == "task" else encode(name)


def encode_job(workspace: str, queue: str, job_id: str) -> str:
    """Encode what a job is known by everywhere: an equal id elsewhere is another job."""
    return f"{encode(workspace)}/{encode(queue)}/{encode(job_id)}"


def decode_job(part: bytes | str) -> str:
    """Return the id of the job that was encoded."""
    text = part.decode() if isinstance(part, bytes) else part
    return decode(text.rpartition("/")[2])


def decode(part: bytes | str) -> str:
    """Return the name that was encoded."""
    text = part.decode() if isinstance(part, bytes) else part
    if text == NO_TASK:
        return ""
    return unquote(text) if "%" in text else text


class Keys:
    """Builds the keys of one namespace and shard."""

    def __init__(self, namespace: str, shard: int = 0) -> None:
        self.prefix = f"{{{namespace}:{shard}}}:"

    def key(self, kind: str, *names: str) -> str:
        """Return the key of a kind; names are given unencoded."""
        if len(names) != len(LAYOUT[kind]):
            raise TypeError(f"a {kind} key takes {LAYOUT[kind]}, not {names}")
        return ":".join((self.prefix + kind, *map(encode, names)))

    def declared(self) -> list[str]:
        """Return the keys that every script is given: the shard's hash, and the bare prefix.

        No key is named so. For a slot of a Cluster that moves, a key that is not there beside one
        that is makes Redis answer TRYAGAIN before the script has changed anything.
        """
        return [self.key("shard"), self.prefix]

    def exported(self) -> str:
        """Return what begins the keys of lists to which this shard's jobs are exported.

        They are another system's, so they are not in the layout; a script that writes to them needs
        them in its own slot.
        """
        return f"{self.prefix[:-1]}exported:"
