#!/usr/bin/env python3
"""A worker over the gRPC stream Jobs.Work: python3 examples/worker-python/worker_grpc.py [--queue mail] [--concurrency 4] …"""
import argparse
import json
import os
import queue
import random
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import grpc
import grpc_tools

from handler import Job, handle

HERE = Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("--target", default="127.0.0.1:9090")
parser.add_argument("--tls", action="store_true", help="with the certificate authorities that gRPC brings along")
parser.add_argument("--proto", default=str(HERE.parent.parent / "proto"), help="the directory of stint/v1/jobs.proto")
parser.add_argument("--key-file", default=".stint/default-key")
parser.add_argument("--queue", default="mail")
parser.add_argument("--worker", default=f"{socket.gethostname()}-{os.getpid()}")
parser.add_argument("--concurrency", type=int, default=4, help="jobs at a time, 1 to 1000")
parser.add_argument("--visibility-seconds", type=float)
parser.add_argument("--grace-seconds", type=float, default=10, help="how long jobs may go on after SIGTERM")
options = parser.parse_args()

# The contract is read as it is; the protos it imports come with grpcio-tools.
sys.path += [options.proto, str(Path(grpc_tools.__file__).parent / "_proto")]
pb, services = grpc.protos_and_services("stint/v1/jobs.proto")

TICK = 0.25  # seconds; below a third of the shortest lease there is
HAND_BACK = 3  # seconds that interrupted jobs have to be handed back, after the grace
MOST_ITEMS = 1000  # of one settle
HOPELESS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
}
OK, ALREADY_SETTLED = pb.SETTLE_OUTCOME_OK, pb.SETTLE_OUTCOME_ALREADY_SETTLED


class Held:
    """A job from its arrival until the service has confirmed its end. Handlers read `stop` and `why`; all else is the main thread's."""

    def __init__(self, leased, stream):
        self.stream = stream  # the number of the one that brought it
        self.lease_seconds = leased.visibility_timeout.ToMilliseconds() / 1000
        self.due = time.monotonic() + self.lease_seconds / 3  # the next heartbeat
        self.end = None  # once it has ended: (list of the settle, item)
        self.told_on = 0  # the stream on which the end was sent last
        self.stop = threading.Event()
        self.why = None

    def interrupt(self, why):
        self.why = self.why or why
        self.stop.set()


class Worker:
    """What outlives a stream. Everything that happens comes to the main thread through `events`."""

    def __init__(self, stub, metadata):
        self.stub, self.metadata = stub, metadata
        self.events = queue.SimpleQueue()
        self.held = {}  # by lease token
        self.stream = 0  # the number of the present one
        self.stopping_since = None
        self.counts = {"acks": 0, "nacks": 0, "releases": 0}
        self.next_report = time.monotonic() + 1

    def stop(self, *_):
        if self.stopping_since is None:
            self.stopping_since = time.monotonic()

    def stopping(self, seconds=0):
        return self.stopping_since is not None and time.monotonic() >= self.stopping_since + seconds

    def work(self):
        """One stream after the other, until told to stop and all that was held is settled."""
        failures = 0
        while not (self.stopping() and not self.held) and not self.out_of_time():
            served, error = self.serve()
            if error is not None:
                if error.code() in HOPELESS:
                    sys.exit(f"{error.code().name}: {error.details()}")
                print(f"the stream broke: {error.code().name}: {error.details()}", file=sys.stderr, flush=True)
            failures = 0 if served else failures
            self.pause(min(5, 0.1 * 2**failures) * random.uniform(0.5, 1))
            failures = min(failures + 1, 10)
        if self.held:
            print(f"could not settle {len(self.held)} leases, they will run out", file=sys.stderr, flush=True)
        self.report()

    def out_of_time(self):
        return self.stopping(options.grace_seconds + HAND_BACK)

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not (self.stopping() and not self.held):
            self.take_events(min(left, TICK))

    def serve(self):
        """
        One stream, until it ends: it breaks, or the service or this worker is stopping and all that is held is settled. What is held
        then is settled on the next. Returns whether the service has sent anything, and the error that broke the stream.
        """
        self.stream += 1
        credits = self.credits()
        requests = queue.SimpleQueue()  # None ends this side
        requests.put(pb.WorkRequest(hello=self.hello(credits)))
        call = self.stub.Work(iter(requests.get, None), metadata=self.metadata)
        threading.Thread(target=self.receive, args=(call, self.stream), daemon=True).start()
        served = draining = closed = False
        number, unanswered = 0, {}  # what was sent, by its id
        try:
            while not self.out_of_time():
                for message in self.take_events(TICK):
                    if message is None or isinstance(message, grpc.RpcError):
                        return served, message
                    served = True
                    if message.HasField("settled"):
                        self.confirm(unanswered.pop(message.settled.id), message.settled.results)
                    for leased in message.jobs.jobs:
                        self.begin(leased)
                    draining = draining or message.HasField("drain")
                if closed:
                    continue
                if (items := self.due()) is not None:
                    number += 1
                    unanswered[number] = items
                    requests.put(pb.WorkRequest(settle=pb.WorkSettle(id=number, items=items)))
                if self.credits() != credits:
                    credits = self.credits()
                    requests.put(pb.WorkRequest(credits=pb.WorkCredits(credits=credits)))
                if (draining or self.stopping()) and not self.held:
                    closed = True
                    requests.put(None)
            return served, None
        finally:
            requests.put(None)
            call.cancel()

    def hello(self, credits):
        hello = pb.WorkHello(queues=[pb.WeightedQueue(name=options.queue)], worker=options.worker, credits=credits)
        if options.visibility_seconds is not None:
            hello.visibility_timeout.FromMilliseconds(round(options.visibility_seconds * 1000))
        return hello

    def receive(self, call, stream):
        try:
            for message in call:
                self.events.put((stream, message))
            self.events.put((stream, None))
        except grpc.RpcError as error:
            self.events.put((stream, error))

    def take_events(self, seconds):
        """Waits so long for something to happen, notes which jobs have ended, and yields the messages of the present stream."""
        messages = []
        try:
            event = self.events.get(timeout=seconds)
            while True:
                source, what = event
                if isinstance(source, str):
                    self.ended(source, what)
                elif source == self.stream:
                    messages.append(what)
                event = self.events.get_nowait()
        except queue.Empty:
            pass
        if self.stopping(options.grace_seconds):
            for own in self.held.values():
                own.interrupt("stopping")
        if time.monotonic() >= self.next_report:
            self.next_report = time.monotonic() + 1
            self.report()
        return messages

    def credits(self):
        """How many jobs this stream may bring: those that earlier streams brought are at work beside them."""
        others = sum(own.stream != self.stream for own in self.held.values())
        return 0 if self.stopping() else max(0, options.concurrency - others)

    def begin(self, leased):
        own = self.held[leased.lease_token] = Held(leased, self.stream)
        if self.stopping():
            own.end = release(leased.lease_token)
        else:
            threading.Thread(target=self.run, args=(leased, own), daemon=True).start()

    def run(self, leased, own):
        """In a thread of its own: does the job and tells how it is to be settled, None when its lease is lost."""
        token = leased.lease_token
        try:
            result = json.dumps(handle(job_of(leased, own), own.stop)).encode()
            end = ("acks", pb.AckItem(lease_token=token, result=result))
        except Exception as error:  # whatever the work raises is a failed attempt
            why = pb.AttemptError(message=str(error), type=type(error).__name__)
            end = ("nacks", pb.NackItem(lease_token=token, error=why))
            if own.why == "stopping":
                end = release(token)
            elif own.why == "lost":
                end = None
        self.events.put((token, end))

    def ended(self, token, end):
        if end is None:
            del self.held[token]
        else:
            self.held[token].end = end

    def due(self):
        """
        What is to be sent now: ends that this stream was not told, and heartbeats; None when there is nothing. An end that was sent on a
        stream that broke is sent again, which changes nothing: it is answered with ALREADY_SETTLED.
        """
        items, count, now = pb.SettleRequest(), 0, time.monotonic()
        for token, own in self.held.items():
            if count == MOST_ITEMS:
                break
            if own.end is not None and own.told_on != self.stream:
                verb, item = own.end
                getattr(items, verb).append(item)
                own.told_on = self.stream
                count += 1
            elif own.end is None and own.due <= now:
                items.heartbeats.add(lease_token=token)
                own.due = now + own.lease_seconds / 3
                count += 1
        return items if count else None

    def confirm(self, items, results):
        """The service's answer: its results are in the order of the items."""
        for item, result in zip(items.heartbeats, results.heartbeats):
            own = self.held.get(item.lease_token)
            if own is None or own.end is not None:
                continue
            if result.outcome != OK:
                own.interrupt("lost")
            elif result.cancel_requested:
                own.interrupt("cancelled")
        for verb in self.counts:
            for item, result in zip(getattr(items, verb), getattr(results, verb)):
                del self.held[item.lease_token]
                if result.outcome in (OK, ALREADY_SETTLED):
                    self.counts[verb] += 1
                else:
                    name = pb.SettleOutcome.Name(result.outcome)
                    print(f"a job could not be settled: {name}", file=sys.stderr, flush=True)

    def report(self):
        print(json.dumps(self.counts), flush=True)


def release(token):
    return ("releases", pb.ReleaseItem(lease_token=token))


def job_of(leased, own):
    is_json = leased.content_type.split(";")[0].strip() == "application/json" or leased.content_type.endswith("+json")
    payload = leased.payload if leased.HasField("payload") else None
    if payload is not None and is_json:
        payload = json.loads(payload)
    kind = leased.kind if leased.HasField("kind") else None
    return Job(leased.id, kind, payload, leased.attempt, own.lease_seconds)


def main():
    key = Path(options.key_file).read_text(encoding="utf8").strip()
    settings = [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5_000),
    ]
    if options.tls:
        channel = grpc.secure_channel(options.target, grpc.ssl_channel_credentials(), settings)
    else:
        channel = grpc.insecure_channel(options.target, settings)
    worker = Worker(services.JobsStub(channel), [("authorization", f"Bearer {key}")])
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, worker.stop)
    worker.work()
    sys.stdout.flush()
    os._exit(0)  # without waiting for work that could not be interrupted


main()
