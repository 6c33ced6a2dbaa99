#!/usr/bin/env python3
"""A worker in another language, with the standard library alone: python3 examples/worker.py [--queue mail] [--concurrency 4] …"""
import argparse
import http.client
import json
import os
import random
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--url", default="http://127.0.0.1:8080")
parser.add_argument("--key-file", default=".stint/default-key")
parser.add_argument("--queue", default="mail")
parser.add_argument("--concurrency", type=int, default=4)
parser.add_argument("--visibility-seconds", type=float, default=30)
parser.add_argument("--work-ms", type=float, default=20)
options = parser.parse_args()

with open(options.key_file, encoding="utf8") as file:
    KEY = file.read().strip()
WORKER = f"{socket.gethostname()}-{os.getpid()}"
stopping = threading.Event()
lock = threading.Lock()
running = set()  # lease tokens at work
parked = 0  # lease calls under way
unsettled = {}  # lease token: (list of the settle call, item), until the service has confirmed it
counts = {"acked": 0, "failed": 0, "released": 0}


def work(job):
    """Put your work here."""
    time.sleep(options.work_ms / 1000)
    return {"by": WORKER}


def post(path, body, timeout=45):
    request = urllib.request.Request(options.url + path, json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {KEY}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.load(response)


def call(path, body):
    """Tries again for as long as the service is away or says 429 or 503; None when this worker is stopping."""
    failures = 0
    while not stopping.is_set():
        asked = 0.0
        try:
            return post(path, body)
        except urllib.error.HTTPError as error:
            if error.code != 429 and error.code < 500:
                print(f"{path}: {error.read().decode()}", flush=True)
                os._exit(1)
            asked = float(error.headers.get("Retry-After", 0))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # refused, lost, or cut in the middle
        stopping.wait(max(asked, min(5, 0.1 * 2**failures) * random.uniform(0.5, 1)))
        failures += 1
    return None


def settle_body(items):
    body = {"acks": [], "nacks": [], "releases": []}
    for kind, item in items:
        body[kind].append(item)
    return body


def slot():
    """Leases one job after the other; how the last one ended rides in the request for the next."""
    global parked
    mine = []
    while not stopping.is_set():
        lease = {"wait": "30s", "visibilityTimeout": f"{options.visibility_seconds}s", "worker": WORKER}
        with lock:
            parked += 1
        answer = call(f"/v1/queues/{options.queue}/lease", {**lease, "settle": settle_body(mine)})
        with lock:
            parked -= 1
            if answer is None:
                return
            for _, item in mine:
                unsettled.pop(item["leaseToken"], None)
            running.update(job["leaseToken"] for job in answer["jobs"])
        if stopping.is_set():
            return
        mine = [run(job) for job in answer["jobs"]]


def run(job):
    token = job["leaseToken"]
    try:
        ended = ("acks", {"leaseToken": token, "result": work(job)})
    except Exception as error:  # whatever the work raises is a failed attempt
        ended = ("nacks", {"leaseToken": token, "error": {"message": str(error), "type": type(error).__name__}})
    with lock:
        running.discard(token)
        unsettled[token] = ended
        counts["acked" if ended[0] == "acks" else "failed"] += 1
    return ended


def heartbeats():
    while not stopping.wait(options.visibility_seconds / 3):
        with lock:
            items = [{"leaseToken": token} for token in running]
        if items:
            call("/v1/leases/heartbeat", {"items": items})


def finish():
    """Confirms what is done and hands back what is not. Calls get a second to be answered first: a job whose answer is not read stays leased."""
    deadline = time.monotonic() + 1
    while parked > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    with lock:
        counts["released"] = len(running)
        items = [*unsettled.values(), *(("releases", {"leaseToken": token}) for token in running)]
    try:
        post("/v1/leases/settle", settle_body(items), timeout=5)
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"could not settle {len(items)} leases, they will run out: {error}", flush=True)


for name in (signal.SIGINT, signal.SIGTERM):
    signal.signal(name, lambda *_: stopping.set())
for target in (heartbeats, *[slot] * options.concurrency):
    threading.Thread(target=target, daemon=True).start()
while not stopping.wait(1):
    print(json.dumps(counts), flush=True)
finish()
print(json.dumps(counts), flush=True)
os._exit(0)  # without waiting for parked calls: the service sees their connections close
