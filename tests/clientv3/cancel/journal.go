package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"vetch.invalid/clientv3/server"
)

// journal collects what happened to all calls. The first few failures are kept, the rest is counted.
type journal struct {
	server *server.Server
	stop   context.CancelFunc
	// Identities of writes that may be cancelled: each may happen once at most.
	identities atomic.Int64

	cancelled, answered, refused atomic.Int64

	mu       sync.Mutex
	failures []string
	count    int
}

func newJournal(s *server.Server, stop context.CancelFunc) *journal {
	j := &journal{server: s, stop: stop}
	go func() {
		<-s.Exited()
		stop()
	}()
	return j
}

// fail notes what must not happen.
func (j *journal) fail(format string, values ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	if len(j.failures) < 8 {
		j.failures = append(j.failures, fmt.Sprintf(format, values...))
	}
	if j.count >= 1000 {
		j.stop()
	}
}

// outcome judges how a call ended; due says that it had been cancelled. Until then it has to succeed.
func (j *journal) outcome(kind *kind, due bool, err error) {
	switch {
	case err == nil:
		j.answered.Add(1)
		kind.answered.Add(1)
	case !due && kind.refusable && status.Code(err) == codes.ResourceExhausted:
		j.refused.Add(1)
	case !due:
		if j.server.Ended() == "" {
			j.fail("%s, not cancelled yet: %v", kind.name, err)
		}
	case cancelled(err):
		j.cancelled.Add(1)
		kind.cancelled.Add(1)
	default:
		j.fail("%s, cancelled: %v", kind.name, err)
	}
}

// cancelled tells whether an error is what cancelling or a deadline makes of a call.
func cancelled(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	// What gRPC says to a message for a stream that has ended.
	if errors.Is(err, io.EOF) {
		return true
	}
	code := status.Code(err)
	// A server that notices the deadline itself says it in its own words.
	return code == codes.Canceled || code == codes.DeadlineExceeded || strings.Contains(err.Error(), "request timed out")
}

// ended says whether the process is still there.
func (j *journal) ended() error {
	if how := j.server.Ended(); how != "" {
		return fmt.Errorf("the server ended (%s) after %d cancelled calls; it says:\n%s", how, j.cancelled.Load(), j.server.Tail())
	}
	return nil
}

// verdict is an error for all failures together.
func (j *journal) verdict(ctx context.Context) error {
	if err := j.ended(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.count > 0 {
		slices.Sort(j.failures)
		return fmt.Errorf("%d failures; some are:\n  %s", j.count, strings.Join(j.failures, "\n  "))
	}
	return ctx.Err()
}
