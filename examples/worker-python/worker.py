#!/usr/bin/env python3
"""A worker over HTTP, with the standard library alone: python3 examples/worker-python/worker.py [--queue mail] [--concurrency 4] …"""
import argparse
import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

from handler import Job, handle

parser = argparse.ArgumentParser()
parser.add_argument("--url", default="http://127.0.0.1:8080")
parser.add_argument("--key-file", default=".stint/default-key")
parser.add_argument("--queue", default="mail")
parser.add_argument("--worker", default=f"{socket.gethostname()}-{os.getpid()}")
parser.add_argument("--concurrency", type=int, default=4)
parser.add_argument("--visibility-seconds", type=float)
options = parser.parse_args()

with open(options.key_file, encoding="utf8") as file:
    KEY = file.read().strip()
LEASE = {"wait": "30s", "worker": options.worker}
if options.visibility_seconds is not None:
    LEASE["visibilityTimeout"] = f"{options.visibility_seconds}s"
TICK = 0.25  # seconds; below a third of the shortest lease there is

stopping = threading.Event()
lock = threading.Lock()
running = {}  # lease token: Running
unsettled = {}  # lease token: (list of the settle call, item), until the service has confirmed it
counts = {"acks": 0, "nacks": 0, "releases": 0}


class Running:
    """A job at work: when its next heartbeat is due, and whether its lease is lost."""

    def __init__(self, lease_seconds):
        self.stop = threading.Event()
        self.lost = False
        self.every = lease_seconds / 3
        self.due = time.monotonic() + self.every


def post(path, body, timeout):
    request = urllib.request.Request(options.url + path, json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {KEY}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.load(response)


def call(path, body, seconds=float("inf"), until=stopping):
    """Tries again for as long as the service is away or says 429 or 5xx; None after so many seconds, or once `until` is set."""
    deadline = time.monotonic() + seconds
    failures = 0
    while not until.is_set() and (left := deadline - time.monotonic()) > 0:
        asked = 0.0
        try:
            return post(path, body, min(45, left))
        except urllib.error.HTTPError as error:
            if error.code != 429 and error.code < 500:
                print(f"{path}: {error.read().decode()}", file=sys.stderr, flush=True)
                os._exit(1)
            told = error.headers.get("Retry-After", "")
            asked = float(told) if told.isdigit() else 0.0
        except (OSError, ValueError, http.client.HTTPException):
            pass  # refused, lost, or cut in the middle
        until.wait(min(left, asked + min(5, 0.1 * 2**failures) * random.uniform(0.5, 1)))
        failures += 1
    return None


def settle_body(items):
    body = {"acks": [], "nacks": [], "releases": []}
    for verb, item in items:
        body[verb].append(item)
    return body


def slot():
    """Leases one job after the other; how the last one ended rides in the request for the next."""
    mine = []
    while not stopping.is_set():
        answer = call(f"/v1/queues/{options.queue}/lease", {**LEASE, "settle": settle_body(mine)})
        if answer is None:
            return
        with lock:
            for _, item in mine:
                unsettled.pop(item["leaseToken"], None)
        mine = [ended for job in answer["jobs"] if (ended := run(job)) is not None]


def run(leased):
    """Does one job; returns how it is to be settled, None when its lease is lost."""
    token = leased["leaseToken"]
    lease_seconds = float(leased["visibilityTimeout"].removesuffix("s"))
    job = Job(leased["id"], leased.get("kind"), leased.get("payload"), leased["attempt"], lease_seconds)
    own = Running(lease_seconds)
    with lock:
        running[token] = own
        if stopping.is_set():  # too late to begin: finish() hands it back
            return None
    try:
        ended = ("acks", {"leaseToken": token, "result": handle(job, own.stop)})
    except Exception as error:  # whatever the work raises is a failed attempt
        ended = ("nacks", {"leaseToken": token, "error": {"message": str(error), "type": type(error).__name__}})
        if own.lost:
            ended = None
        elif stopping.is_set():
            ended = ("releases", {"leaseToken": token})
    with lock:
        del running[token]
        if ended is not None:
            unsettled[token] = ended
            counts[ended[0]] += 1
    return ended


def heartbeats():
    while True:
        time.sleep(TICK)
        now = time.monotonic()
        with lock:
            due = [(token, own) for token, own in running.items() if own.due <= now]
        for _, own in due:
            own.due = now + own.every
        if due:  # in a thread of its own: an answer that is late holds up no other heartbeat
            threading.Thread(target=heartbeat, args=(due,), daemon=True).start()


def heartbeat(due):
    """All that are due in one call."""
    body = {"items": [{"leaseToken": token} for token, _ in due]}
    answer = call("/v1/leases/heartbeat", body, seconds=min(own.every for _, own in due))
    for (_, own), result in zip(due, answer["results"] if answer else []):
        own.lost = result["outcome"] != "OK"
        if own.lost or result.get("cancelRequested"):
            own.stop.set()


def finish(slots):
    """
    Interrupts the work, confirms what is done and hands back what is not. All get a second first: a job whose lease call is
    answered and not read stays leased.
    """
    with lock:
        for own in running.values():
            own.stop.set()
    deadline = time.monotonic() + 1
    for thread in slots:
        thread.join(max(0, deadline - time.monotonic()))
    with lock:
        items = [*unsettled.values(), *(("releases", {"leaseToken": token}) for token in running)]
        counts["releases"] += len(running)
    if items and call("/v1/leases/settle", settle_body(items), seconds=5, until=threading.Event()) is None:
        print(f"could not settle {len(items)} leases, they will run out", file=sys.stderr, flush=True)


for name in (signal.SIGINT, signal.SIGTERM):
    signal.signal(name, lambda *_: stopping.set())
workers = [threading.Thread(target=slot, daemon=True) for _ in range(options.concurrency)]
for thread in (threading.Thread(target=heartbeats, daemon=True), *workers):
    thread.start()
while not stopping.wait(1):
    print(json.dumps(counts), flush=True)
finish(workers)
print(json.dumps(counts), flush=True)
os._exit(0)  # without waiting for parked calls: the service sees their connections close
