// A worker over the gRPC stream Jobs.Work: go run . --queue mail --concurrency 10
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	stintv1 "example/worker-go/stint/v1"
)

const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
	// How long interrupted jobs have to be handed back, after the time to finish.
	handBack = 3 * time.Second
)

type options struct {
	target, keyFile, queue, name string
	concurrency                  int
	visibility, grace            time.Duration
	tls                          bool
}

func main() {
	log.SetFlags(0)
	host, _ := os.Hostname()
	var o options
	flag.StringVar(&o.target, "target", "127.0.0.1:9090", "where the service speaks gRPC")
	flag.StringVar(&o.keyFile, "key-file", ".stint/default-key", "a file that holds the API key")
	flag.StringVar(&o.queue, "queue", "mail", "the queue to work on")
	flag.StringVar(&o.name, "worker", fmt.Sprintf("%s-%d", host, os.Getpid()), "who works, shown with the jobs")
	flag.IntVar(&o.concurrency, "concurrency", 10, "jobs at a time, 1 to 1000")
	visibility := flag.Float64("visibility-seconds", 0, "how long a lease lasts without a heartbeat; the job's or the queue's by default")
	grace := flag.Float64("grace-seconds", 10, "how long jobs may go on after SIGTERM before they are interrupted and handed back")
	flag.BoolVar(&o.tls, "tls", false, "use TLS, with the machine's certificate authorities")
	flag.Parse()
	o.visibility, o.grace = seconds(*visibility), seconds(*grace)
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

func seconds(count float64) time.Duration {
	return time.Duration(count*1000) * time.Millisecond
}

func run(o options) error {
	key, err := os.ReadFile(o.keyFile)
	if err != nil {
		return err
	}
	connection, err := connect(o)
	if err != nil {
		return err
	}
	defer connection.Close()

	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(key)))

	w := newWorker(o, stintv1.NewJobsClient(connection), stop.Done())
	context.AfterFunc(stop, func() {
		time.AfterFunc(o.grace, w.interrupt)
		time.AfterFunc(o.grace+handBack, cancel)
	})
	if err := w.work(ctx); err != nil {
		return err
	}
	if len(w.held) > 0 {
		log.Printf("could not settle %d leases, they will run out", len(w.held))
	}
	w.report()
	return nil
}

func connect(o options) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if o.tls {
		transport = credentials.NewTLS(nil)
	}
	return grpc.NewClient(o.target,
		grpc.WithTransportCredentials(transport),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.5, MaxDelay: longPause},
			MinConnectTimeout: longPause,
		}))
}

// work holds one stream after the other until the worker was told to stop and has settled all it held, or ctx is cancelled. It returns an
// error that trying again cannot mend.
func (w *worker) work(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil && !(w.stopping() && len(w.held) == 0); {
		served, err := w.serve(ctx)
		switch status.Code(err) {
		case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
			return err
		}
		if served {
			failures = 0
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("the stream broke: %v", err)
		}
		w.pause(ctx, failures)
		failures++
	}
	return nil
}

// pause waits before the next stream: longer after each failure, and by chance, so that not all workers come back at once. A worker with
// nothing to settle that is told to stop waits no longer.
func (w *worker) pause(ctx context.Context, failures int) {
	most := min(longPause, firstPause<<min(failures, 10))
	var stopped <-chan struct{}
	if len(w.held) == 0 {
		stopped = w.stopped
	}
	select {
	case <-time.After(most/2 + rand.N(most/2)):
	case <-stopped:
	case <-ctx.Done():
	}
}
