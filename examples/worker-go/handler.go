package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	stintv1 "example/worker-go/stint/v1"
)

// handle does one job and returns its result, which is kept as JSON; an error is a failed attempt. ctx is cancelled when the lease is lost,
// the job's cancellation is asked for, or the worker's time to finish is over: return then, with an error.
//
// Put your work here. What stands here is a demonstration that does as the payload says, see examples/README.md.
func handle(ctx context.Context, job *stintv1.LeasedJob) (any, error) {
	asked := struct {
		Do string `json:"do"`
		Ms int    `json:"ms"`
	}{Ms: 20}
	if len(job.Payload) > 0 {
		if err := json.Unmarshal(job.Payload, &asked); err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	takes := time.Duration(asked.Ms) * time.Millisecond
	if asked.Do == "slow" {
		takes = job.VisibilityTimeout.AsDuration() * 5 / 2
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(takes):
	}
	switch {
	case asked.Do == "poison":
		return nil, errors.New("poisoned: it fails at every attempt")
	case asked.Do == "fail-once" && job.Attempt == 1:
		return nil, errors.New("the first attempt fails")
	}
	return map[string]int32{"attempt": job.Attempt}, nil
}
