package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// stopwatch collects how long requests of several kinds took.
type stopwatch struct {
	mu    sync.Mutex
	since time.Time // requests that began earlier do not count
	times map[string][]time.Duration
	fails []error
}

func newStopwatch() *stopwatch { return &stopwatch{times: map[string][]time.Duration{}} }

// reset forgets what was measured, also of requests that are under way.
func (s *stopwatch) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.times = time.Now(), map[string][]time.Duration{}
}

func (s *stopwatch) measure(ctx context.Context, what string, do func() error) {
	begun := time.Now()
	err := do()
	took := time.Since(begun)
	if err != nil {
		s.fail(ctx, fmt.Errorf("%s: %w", what, err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun.After(s.since) {
		s.times[what] = append(s.times[what], took)
	}
}

// fail notes a failure, unless it only says that the phase is over.
func (s *stopwatch) fail(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		s.fails = append(s.fails, err)
	}
}

// failure is the first of many, if there were any: in the steady phase nothing may fail.
func (s *stopwatch) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fails) == 0 {
		return nil
	}
	return fmt.Errorf("%d requests failed, the first: %w", len(s.fails), s.fails[0])
}

// sorted are the times of one kind, the shortest first.
func (s *stopwatch) sorted(what string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := slices.Clone(s.times[what])
	slices.Sort(times)
	return times
}

// quantile is the shortest of the sorted times that a share q of them does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
