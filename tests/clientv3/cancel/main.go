// Cancel cancels calls of etcd's Go client at random moments, beside traffic that is never cancelled.
//
// Every kind of call is cancelled: unary ones, ranges of megabytes, streams of ranges, watches, snapshots and keep-alives, by
// several clients, each with one connection. Normal traffic runs on the same connections and on others, and must see no
// error at all; its history is checked while it runs. Afterwards the server holds what it held before: memory,
// calls, watchers, connections. It runs unchanged on etcd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"vetch.invalid/clientv3/server"
)

type arguments struct {
	binary    string
	calls     int64
	seed      uint64
	clients   int
	workers   int
	port      int
	tls       bool
	tolerance float64
	longest   time.Duration
}

func parse() arguments {
	var a arguments
	flag.StringVar(&a.binary, "binary", "", "the server's binary, vetch or etcd")
	flag.Int64Var(&a.calls, "calls", 30_000, "how many calls to cancel")
	flag.Uint64Var(&a.seed, "seed", 1, "of what is called and when it is cancelled")
	flag.IntVar(&a.clients, "clients", 4, "clients whose calls are cancelled, each with a connection")
	flag.IntVar(&a.workers, "workers", 8, "concurrent calls of each client")
	flag.IntVar(&a.port, "port", 23000, "first of 100 ports on loopback")
	flag.BoolVar(&a.tls, "tls", false, "over TLS")
	flag.Float64Var(&a.tolerance, "tolerance", 48, "MiB by which resident memory may be larger afterwards")
	flag.DurationVar(&a.longest, "longest", time.Hour, "give up after this time")
	flag.Parse()
	return a
}

func main() {
	a := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, a); err != nil {
		say("FAILED: %v", err)
		os.Exit(1)
	}
}

func say(format string, values ...any) { fmt.Printf("cancel: "+format+"\n", values...) }

func run(ctx context.Context, a arguments) error {
	ctx, cancel := context.WithTimeout(ctx, a.longest)
	defer cancel()
	home, err := os.MkdirTemp("", "vetch-cancel-")
	if err != nil {
		return err
	}
	s, err := server.Start(ctx, server.Options{Binary: a.binary, Home: home, Port: a.port, TLS: a.tls})
	if err != nil {
		return err
	}
	err = errors.Join(trial(ctx, a, s), s.Stop())
	if err != nil {
		say("data and log are kept in %s", home)
		return err
	}
	return os.RemoveAll(home)
}

// trial cancels some calls to warm up, measures, cancels all, and measures again.
func trial(ctx context.Context, a arguments, s *server.Server) error {
	if err := prepare(ctx, s); err != nil {
		return err
	}
	say("seed %d, %d clients with %d concurrent calls each, %s", a.seed, a.clients, a.workers, s.Endpoint)
	warm := a
	warm.calls, warm.seed = min(max(a.calls/10, 2000), 20_000), a.seed+1_000_000
	if err := phase(ctx, warm, s, "warm-up"); err != nil {
		return err
	}
	before, err := settled(ctx, s, nil, a.tolerance)
	if err != nil {
		return err
	}
	if err := phase(ctx, a, s, "trial"); err != nil {
		return err
	}
	after, err := settled(ctx, s, &before, a.tolerance)
	if err != nil {
		return err
	}
	if err := compare(before, after, a.tolerance); err != nil {
		return err
	}
	say("passed: no error but of cancelled calls, nothing left behind")
	return nil
}

// prepare writes what large ranges read: 32 keys of 64 KiB.
func prepare(ctx context.Context, s *server.Server) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for n := range bulkKeys {
		if _, err := client.Put(ctx, fmt.Sprintf("%s%02d", bulk, n), string(make([]byte, bulkValue))); err != nil {
			return err
		}
	}
	return nil
}

// phase lets all clients work until so many calls were cancelled.
func phase(ctx context.Context, a arguments, s *server.Server, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j := newJournal(s, cancel)
	started, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	p, err := startPolite(ctx, a, s, j)
	if err != nil {
		return err
	}
	c := newCanceller(a, j, p.shared)
	c.run(ctx)
	p.finish()
	took := time.Since(begun).Seconds()
	say("%s: %d calls cancelled in %.0fs, %d answered before they were, %d refused%s", name, j.cancelled.Load(), took,
		j.answered.Load(), j.refused.Load(), c.kinds())
	if err := j.verdict(ctx); err != nil {
		return err
	}
	ended, err := s.Metrics(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	reached := ended["grpc_server_started_total"] - started["grpc_server_started_total"]
	say("%s: %s; %.0f calls reached the server", name, p.summary(), reached)
	return j.ended()
}

// settled compacts everything and waits until the server holds little, or as much as before.
func settled(ctx context.Context, s *server.Server, before *server.Usage, tolerance float64) (server.Usage, error) {
	if err := compactAll(ctx, s); err != nil {
		return server.Usage{}, err
	}
	var u server.Usage
	for begun := time.Now(); time.Since(begun) < 20*time.Second; {
		select {
		case <-ctx.Done():
			return u, ctx.Err()
		case <-time.After(time.Second):
		}
		var err error
		if u, err = s.Measure(ctx); err != nil {
			return u, err
		}
		if before != nil && compare(*before, u, tolerance) == nil {
			break
		}
		// What leases and closed connections leave behind is gone after a few seconds.
		if before == nil && time.Since(begun) > 8*time.Second && u.Calls == 0 {
			break
		}
	}
	say("%.1f MiB resident, %d threads, %d descriptors, %.0f calls, %.0f watchers on %.0f streams, %.0f connections, %.0f goroutines",
		u.Resident, u.Threads, u.Descriptors, u.Calls, u.Watchers, u.WatchStreams, u.Connections, u.Goroutines)
	return u, nil
}

func compactAll(ctx context.Context, s *server.Server) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	now, err := client.Put(ctx, "settled", "")
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	return err
}

// compare says what is left of the cancelled calls.
func compare(before, after server.Usage, tolerance float64) error {
	var wrong []error
	check := func(what string, was, is, more float64) {
		if is > was+more {
			wrong = append(wrong, fmt.Errorf("%s: %.1f before, %.1f after", what, was, is))
		}
	}
	check("resident memory in MiB", before.Resident, after.Resident, tolerance)
	check("calls in progress", before.Calls, after.Calls, 0)
	check("watchers", before.Watchers, after.Watchers, 0)
	check("watch streams", before.WatchStreams, after.WatchStreams, 0)
	check("connections", before.Connections, after.Connections, 0)
	check("descriptors", float64(before.Descriptors), float64(after.Descriptors), 4)
	check("threads", float64(before.Threads), float64(after.Threads), 8)
	check("goroutines", before.Goroutines, after.Goroutines, 50)
	return errors.Join(wrong...)
}
