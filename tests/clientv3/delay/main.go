// Delay measures how late a watch is that shares its connection with large reads, while other processes compete for the
// processors, on etcd and on Vetch by turns.
//
// It is the pattern of etcd's own tests TestWatchDelayFor*: ten readers of 5 MB and one watch on one client, to which
// something is sent every 100 ms: events, progress by interval, or progress on request. How much longer it takes
// from one answer to the next is the delay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"vetch.invalid/clientv3/server"
)

const (
	period   = 100 * time.Millisecond
	database = 5_000_000
	value    = 10_000
	readers  = 10
)

type arguments struct {
	vetch, etcd string
	rounds      int
	length      time.Duration
	busy        int
	port        int
	late, limit time.Duration
	report      bool
}

func parse() arguments {
	var a arguments
	flag.StringVar(&a.vetch, "vetch", "", "Vetch's binary")
	flag.StringVar(&a.etcd, "etcd", "", "etcd's binary")
	flag.IntVar(&a.rounds, "rounds", 5, "how often each case is measured on each server")
	flag.DurationVar(&a.length, "length", 5*time.Second, "of one measurement")
	flag.IntVar(&a.busy, "busy", 2, "processes that compete for the processors")
	flag.IntVar(&a.port, "port", 23200, "first of 200 ports on loopback")
	flag.DurationVar(&a.late, "late", 50*time.Millisecond, "how much later than etcd's the latest answer may be")
	flag.DurationVar(&a.limit, "limit", 150*time.Millisecond, "how late an answer may be")
	flag.BoolVar(&a.report, "report", false, "measure only")
	flag.Parse()
	return a
}

func say(format string, values ...any) { fmt.Printf("delay: "+format+"\n", values...) }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "busy" {
		for {
		}
	}
	a := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, a); err != nil {
		say("FAILED: %v", err)
		os.Exit(1)
	}
}

// watched is one way in which a watch is sent something every period.
type watched struct {
	name string
	// feed makes the server send; nil if it does by itself.
	feed  func(context.Context, *clientv3.Client) error
	watch func(context.Context, *clientv3.Client) clientv3.WatchChan
}

var cases = []watched{
	{"events", func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, "key", time.Now().String())
		return err
	}, func(ctx context.Context, c *clientv3.Client) clientv3.WatchChan { return c.Watch(ctx, "key") }},
	{"progress by interval", nil, func(ctx context.Context, c *clientv3.Client) clientv3.WatchChan {
		return c.Watch(ctx, "none", clientv3.WithProgressNotify())
	}},
	{"progress on request", func(ctx context.Context, c *clientv3.Client) error { return c.RequestProgress(ctx) },
		func(ctx context.Context, c *clientv3.Client) clientv3.WatchChan { return c.Watch(ctx, "none") }},
}

// subject is one server under measurement.
type subject struct {
	name   string
	server *server.Server
	delays map[string][]time.Duration // by case
	read   int64
}

func run(ctx context.Context, a arguments) error {
	home, err := os.MkdirTemp("", "vetch-delay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	for range a.busy {
		stop, err := startBusy()
		if err != nil {
			return err
		}
		defer stop()
	}
	var wrong []error
	for n, tls := range []bool{false, true} {
		transport := map[bool]string{false: "plain", true: "TLS"}[tls]
		subjects, err := startSubjects(ctx, a, filepath.Join(home, transport), a.port+100*n, tls)
		if err != nil {
			return err
		}
		err = measureAll(ctx, a, subjects)
		wrong = append(wrong, err, judge(a, transport, subjects))
		for _, s := range subjects {
			wrong = append(wrong, s.server.Stop())
		}
	}
	if a.report {
		return nil
	}
	return errors.Join(wrong...)
}

// startBusy starts a process that never rests.
func startBusy() (func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, "busy")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := command.Start(); err != nil {
		return nil, err
	}
	return func() {
		command.Process.Kill()
		command.Wait()
	}, nil
}

func startSubjects(ctx context.Context, a arguments, home string, port int, tls bool) ([]*subject, error) {
	var subjects []*subject
	for n, binary := range []string{a.etcd, a.vetch} {
		name := []string{"etcd", "vetch"}[n]
		dir := filepath.Join(home, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		s, err := server.Start(ctx, server.Options{Binary: binary, Home: dir, Port: port + 50*n, TLS: tls,
			Flags: []string{"--watch-progress-notify-interval=" + period.String()}})
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, &subject{name: name, server: s, delays: map[string][]time.Duration{}})
		if err := fill(ctx, s); err != nil {
			return nil, err
		}
	}
	return subjects, nil
}

func fill(ctx context.Context, s *server.Server) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for n := range database / value {
		if _, err := client.Put(ctx, fmt.Sprintf("data/%04d", n), string(make([]byte, value))); err != nil {
			return err
		}
	}
	return nil
}

// measureAll measures all cases on both servers by turns, so that both meet the same machine.
func measureAll(ctx context.Context, a arguments, subjects []*subject) error {
	for round := range a.rounds {
		for _, c := range cases {
			for _, s := range subjects {
				if err := s.measure(ctx, a, c); err != nil {
					return fmt.Errorf("%s, %s, round %d: %w", s.name, c.name, round+1, err)
				}
			}
		}
	}
	return nil
}

// measure notes the delay of every answer.
func (s *subject) measure(ctx context.Context, a arguments, c watched) error {
	client, err := s.server.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, a.length)
	defer cancel()
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	loop := func(do func() error) {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && ctx.Err() == nil {
					failed.Store(&err)
					cancel()
				}
			}
		})
	}
	for range readers {
		loop(func() error {
			answer, err := client.Get(ctx, "data/", clientv3.WithPrefix())
			if err == nil {
				for _, kv := range answer.Kvs {
					atomic.AddInt64(&s.read, int64(len(kv.Value)))
				}
			}
			return err
		})
	}
	answers := c.watch(ctx, client)
	if c.feed != nil {
		loop(func() error {
			err := c.feed(ctx, client)
			sleep(ctx, period)
			return err
		})
	}
	s.collect(ctx, c.name, answers)
	cancel()
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func sleep(ctx context.Context, time_ time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time_):
	}
}

// collect notes the delays, that of an answer which did not come in the end included.
func (s *subject) collect(ctx context.Context, name string, answers clientv3.WatchChan) {
	last := time.Now()
	first := true
	note := func() {
		if delay := time.Since(last) - period; !first || delay > 0 {
			s.delays[name] = append(s.delays[name], max(delay, 0))
		}
	}
	for range answers {
		if ctx.Err() != nil {
			break
		}
		// The first answer includes the time to open a connection and to start the watch.
		if !first {
			note()
		}
		first, last = false, time.Now()
	}
	if time.Since(last) > period {
		note()
	}
}

func judge(a arguments, transport string, subjects []*subject) error {
	var wrong []error
	for _, c := range cases {
		var latest []time.Duration
		for _, s := range subjects {
			all := slices.Sorted(slices.Values(s.delays[c.name]))
			if len(all) == 0 {
				return fmt.Errorf("%s: %s: nothing was measured", s.name, c.name)
			}
			last := all[len(all)-1]
			say("%-5s %-22s %-5s %4d answers, delay p50 %4.0f ms, p99 %4.0f ms, largest %4.0f ms", transport, c.name, s.name, len(all),
				ms(all[len(all)/2]), ms(all[len(all)*99/100]), ms(last))
			latest = append(latest, last)
		}
		etcd, vetch := latest[0], latest[1]
		if vetch > etcd+a.late || vetch > a.limit {
			wrong = append(wrong, fmt.Errorf("%s, %s: %.0f ms late, etcd %.0f ms", transport, c.name, ms(vetch), ms(etcd)))
		}
	}
	for _, s := range subjects {
		seconds := float64(a.rounds*len(cases)) * a.length.Seconds()
		say("%-5s %s: %.0f MB/s read beside", transport, s.name, float64(s.read)/1e6/seconds)
	}
	return errors.Join(wrong...)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
