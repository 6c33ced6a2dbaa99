"""What is done with a job. Put your work here: what stands here is a demonstration that does as the payload says, see examples/README.md."""
import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    id: str
    kind: str | None
    payload: Any  # JSON, as Python reads it
    attempt: int  # from 1
    lease_seconds: float  # how long this lease lasts without a heartbeat


class Interrupted(Exception):
    """The work was told to stop before its end."""


def handle(job: Job, stop: threading.Event) -> Any:
    """
    Does one job and returns its result, as JSON; what it raises is a failed attempt. `stop` is set when the lease is lost, the job's
    cancellation is asked for, or the worker is ending: raise Interrupted then.
    """
    asked = job.payload if isinstance(job.payload, dict) else {}
    task = asked.get("do")
    seconds = job.lease_seconds * 2.5 if task == "slow" else asked.get("ms", 20) / 1000
    if stop.wait(seconds):
        raise Interrupted("interrupted")
    if task == "poison":
        raise RuntimeError("poisoned: it fails at every attempt")
    if task == "fail-once" and job.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return {"attempt": job.attempt}
