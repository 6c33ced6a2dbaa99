package main

import (
	"log"
	"time"

	stintv1 "example/worker-go/stint/v1"
)

// Items of one settle.
const mostItems = 1000

// settle adds how a job ended to a request.
type settle func(*stintv1.SettleRequest)

func ack(token string, result []byte) settle {
	return func(items *stintv1.SettleRequest) {
		items.Acks = append(items.Acks, &stintv1.AckItem{LeaseToken: token, Result: result})
	}
}

func nack(token string, err error) settle {
	return func(items *stintv1.SettleRequest) {
		why := &stintv1.AttemptError{Message: err.Error()}
		items.Nacks = append(items.Nacks, &stintv1.NackItem{LeaseToken: token, Error: why})
	}
}

func release(token string) settle {
	return func(items *stintv1.SettleRequest) {
		items.Releases = append(items.Releases, &stintv1.ReleaseItem{LeaseToken: token})
	}
}

// due collects what is to be sent now: ends that this stream was not told, and heartbeats; nil when there is nothing. An end that was
// sent on a stream that broke is sent again, which changes nothing: it is answered with ALREADY_SETTLED.
func (w *worker) due(now time.Time) *stintv1.SettleRequest {
	items := &stintv1.SettleRequest{}
	count := 0
	for token, job := range w.held {
		switch {
		case job.end != nil && job.toldOn != w.streams:
			job.end(items)
			job.toldOn = w.streams
		case job.end == nil && !now.Before(job.due):
			items.Heartbeats = append(items.Heartbeats, &stintv1.HeartbeatItem{LeaseToken: token})
			job.due = now.Add(job.every)
		default:
			continue
		}
		if count++; count == mostItems {
			break
		}
	}
	if count == 0 {
		return nil
	}
	return items
}

// confirm takes the service's answer; its results are in the order of the items.
func (w *worker) confirm(items *stintv1.SettleRequest, results *stintv1.SettleResponse) {
	for n, result := range results.GetHeartbeats() {
		job := w.held[items.Heartbeats[n].LeaseToken]
		switch {
		case job == nil || job.end != nil:
		case result.Outcome != stintv1.SettleOutcome_SETTLE_OUTCOME_OK:
			job.cancel(errLeaseLost)
		case result.GetCancelRequested():
			job.cancel(errCancelled)
		}
	}
	for n, result := range results.GetAcks() {
		w.settled(items.Acks[n].LeaseToken, result.Outcome, &w.counts.Acks)
	}
	for n, result := range results.GetNacks() {
		w.settled(items.Nacks[n].LeaseToken, result.Outcome, &w.counts.Nacks)
	}
	for n, result := range results.GetReleases() {
		w.settled(items.Releases[n].LeaseToken, result.Outcome, &w.counts.Releases)
	}
}

func (w *worker) settled(token string, outcome stintv1.SettleOutcome, count *int) {
	delete(w.held, token)
	switch outcome {
	case stintv1.SettleOutcome_SETTLE_OUTCOME_OK, stintv1.SettleOutcome_SETTLE_OUTCOME_ALREADY_SETTLED:
		*count++
	default:
		log.Printf("a job could not be settled: %v", outcome)
	}
}
