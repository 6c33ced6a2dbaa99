package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	stintv1 "example/worker-go/stint/v1"
)

type workStream = grpc.BidiStreamingClient[stintv1.WorkRequest, stintv1.WorkResponse]

// present is the stream that is open, and what is so on it alone.
type present struct {
	workStream
	credits    int32
	lastID     int64
	unanswered map[int64]*stintv1.SettleRequest // settles, by their id
	draining   bool
	closed     bool // this side of it
}

// send sends a message. Of a stream that has broken it says nothing: receive tells why.
func (p *present) send(message *stintv1.WorkRequest) error {
	if err := p.Send(message); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// receive hands over what comes on the stream, until ctx is cancelled, and then why it ended: io.EOF after the status OK.
func receive(ctx context.Context, stream workStream) (<-chan *stintv1.WorkResponse, <-chan error) {
	messages, broken := make(chan *stintv1.WorkResponse), make(chan error, 1)
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				broken <- err
				return
			}
			select {
			case messages <- message:
			case <-ctx.Done():
				return
			}
		}
	}()
	return messages, broken
}
