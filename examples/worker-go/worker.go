package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "example/worker-go/stint/v1"
)

// Below a third of the shortest lease there is.
const tick = 250 * time.Millisecond

var (
	errLeaseLost = errors.New("the lease is lost")
	errCancelled = errors.New("cancellation was asked for")
	errStopping  = errors.New("the worker is stopping")
)

// worker is what outlives a stream. One goroutine, that of serve, owns it all; handlers tell it how they ended through ends.
type worker struct {
	options
	client    stintv1.JobsClient
	stopped   <-chan struct{}
	held      map[string]*heldJob // by lease token, until the service has confirmed the end
	ends      chan ended
	streams   int // so far: the number of the present one
	handlers  context.Context
	interrupt func()
	counts    struct {
		Acks     int `json:"acks"`
		Nacks    int `json:"nacks"`
		Releases int `json:"releases"`
	}
}

type heldJob struct {
	stream int // the one that brought it
	cancel context.CancelCauseFunc
	every  time.Duration // between heartbeats
	due    time.Time     // the next one
	end    settle        // nil while it is at work
	toldOn int           // the stream on which the end was sent last
}

type ended struct {
	token string
	end   settle // nil: the lease is lost, there is nothing to tell
}

func newWorker(o options, client stintv1.JobsClient, stopped <-chan struct{}) *worker {
	handlers, cancel := context.WithCancelCause(context.Background())
	return &worker{
		options:   o,
		client:    client,
		stopped:   stopped,
		held:      map[string]*heldJob{},
		ends:      make(chan ended),
		handlers:  handlers,
		interrupt: func() { cancel(errStopping) },
	}
}

func (w *worker) stopping() bool {
	select {
	case <-w.stopped:
		return true
	default:
		return false
	}
}

func (w *worker) report() {
	line, _ := json.Marshal(w.counts)
	fmt.Println(string(line))
}

// serve holds one stream until it ends: it breaks, or the service or this worker is stopping and all that is held has been settled. What
// is held then stays held, and is settled on the next stream. Returns whether the service has sent anything.
func (w *worker) serve(ctx context.Context) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.client.Work(ctx)
	if err != nil {
		return false, err
	}
	w.streams++
	p := &present{workStream: stream, credits: w.credits(), unanswered: map[int64]*stintv1.SettleRequest{}}
	hello := &stintv1.WorkRequest_Hello{Hello: w.hello(p.credits)}
	if err := p.send(&stintv1.WorkRequest{Message: hello}); err != nil {
		return false, err
	}
	messages, broken := receive(ctx, stream)
	ticker, reports := time.NewTicker(tick), time.NewTicker(time.Second)
	defer ticker.Stop()
	defer reports.Stop()
	stopped := w.stopped
	for {
		select {
		case err := <-broken:
			if errors.Is(err, io.EOF) {
				return served, nil
			}
			return served, err
		case message := <-messages:
			served = true
			w.take(p, message)
		case how := <-w.ends:
			w.end(how)
		case <-ticker.C:
		case <-reports.C:
			w.report()
		case <-stopped:
			stopped = nil
		}
		if err := w.tell(p); err != nil {
			return served, err
		}
	}
}

func (w *worker) take(p *present, message *stintv1.WorkResponse) {
	if answer := message.GetSettled(); answer != nil {
		w.confirm(p.unanswered[answer.Id], answer.Results)
		delete(p.unanswered, answer.Id)
	}
	for _, job := range message.GetJobs().GetJobs() {
		w.begin(job)
	}
	p.draining = p.draining || message.GetDrain() != nil
}

// tell sends what is due, and ends this side of the stream when there is nothing left to do on it.
func (w *worker) tell(p *present) error {
	if p.closed {
		return nil
	}
	if items := w.due(time.Now()); items != nil {
		p.lastID++
		p.unanswered[p.lastID] = items
		settle := &stintv1.WorkRequest_Settle{Settle: &stintv1.WorkSettle{Id: p.lastID, Items: items}}
		if err := p.send(&stintv1.WorkRequest{Message: settle}); err != nil {
			return err
		}
	}
	if now := w.credits(); now != p.credits {
		p.credits = now
		credits := &stintv1.WorkRequest_Credits{Credits: &stintv1.WorkCredits{Credits: now}}
		if err := p.send(&stintv1.WorkRequest{Message: credits}); err != nil {
			return err
		}
	}
	if (p.draining || w.stopping()) && len(w.held) == 0 {
		p.closed = true
		return p.CloseSend()
	}
	return nil
}

func (w *worker) hello(credits int32) *stintv1.WorkHello {
	hello := &stintv1.WorkHello{
		Queues:  []*stintv1.WeightedQueue{{Name: w.queue}},
		Worker:  &w.name,
		Credits: credits,
	}
	if w.visibility > 0 {
		hello.VisibilityTimeout = durationpb.New(w.visibility)
	}
	return hello
}

// credits is how many jobs this stream may bring: those that earlier streams brought are at work beside them.
func (w *worker) credits() int32 {
	if w.stopping() {
		return 0
	}
	free := w.concurrency
	for _, job := range w.held {
		if job.stream != w.streams {
			free--
		}
	}
	return int32(max(0, free))
}

// begin starts the work on a job, or hands it back when the worker is stopping.
func (w *worker) begin(job *stintv1.LeasedJob) {
	ctx, cancel := context.WithCancelCause(w.handlers)
	every := job.VisibilityTimeout.AsDuration() / 3
	w.held[job.LeaseToken] = &heldJob{stream: w.streams, cancel: cancel, every: every, due: time.Now().Add(every)}
	if w.stopping() {
		w.end(ended{job.LeaseToken, release(job.LeaseToken)})
		return
	}
	go func() { w.ends <- ended{job.LeaseToken, w.do(ctx, job)} }()
}

func (w *worker) do(ctx context.Context, job *stintv1.LeasedJob) (end settle) {
	result, err := protected(ctx, job)
	var kept []byte
	if err == nil {
		kept, err = json.Marshal(result)
	}
	if err == nil {
		return ack(job.LeaseToken, kept)
	}
	switch context.Cause(ctx) {
	case errLeaseLost:
		return nil
	case errStopping:
		return release(job.LeaseToken)
	}
	return nack(job.LeaseToken, err)
}

// protected makes a panic of one job the failure of that job alone.
func protected(ctx context.Context, job *stintv1.LeasedJob) (result any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return handle(ctx, job)
}

func (w *worker) end(how ended) {
	job := w.held[how.token]
	job.cancel(nil)
	if job.end = how.end; how.end == nil {
		delete(w.held, how.token)
	}
}
