// Robustness lets the traffic and the validators of etcd's own robustness tests loose on one server.
//
// It starts the server, runs upstream's clients and watchers against it while the process is killed or paused, stops
// it, reads from its disk what was persisted, and asks upstream's validators whether what the clients saw is
// linearizable and whether watches and historic reads agree with what was persisted. README.md has the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
)

type options struct {
	kind, binary, home string
	profile, fault     string
	length             time.Duration
	prove, again       bool
}

func main() {
	var o options
	flag.StringVar(&o.kind, "server", "vetch", "vetch or etcd: where persisted requests are read from")
	flag.StringVar(&o.binary, "binary", "", "the server's binary")
	flag.StringVar(&o.home, "home", "", "an empty directory for data, logs and, if something is wrong, the history")
	flag.StringVar(&o.profile, "profile", "etcd", "the mix of requests")
	flag.StringVar(&o.fault, "fault", "kill", "none, kill, pause or both")
	flag.DurationVar(&o.length, "length", 15*time.Second, "how long the traffic lasts")
	flag.BoolVar(&o.prove, "prove", false, "also falsify the history in every known way and demand that each is found")
	flag.BoolVar(&o.again, "again", false, "judge the history that a failed run left in its directory, and run nothing")
	flag.Parse()
	err := trial(o)
	if err == nil {
		return
	}
	code, word := 1, "FAILED: "
	if errors.Is(err, errUndecided) {
		code, word = 3, ""
	}
	fmt.Printf("  %s%s\n  everything about it is in %s\n", word, err, o.home)
	os.Exit(code)
}

func trial(o options) error {
	p, known := profiles[o.profile]
	if _, fault := faults[o.fault]; !known || !fault {
		return fmt.Errorf("no such profile or fault: %s, %s", o.profile, o.fault)
	}
	lg, err := logger(filepath.Join(o.home, "trial.log"))
	if err != nil {
		return err
	}
	page := filepath.Join(o.home, "history.html")
	if o.again {
		e, err := load(o.home)
		if err != nil {
			return err
		}
		return judge(lg, e, p, page)
	}
	e, err := gather(lg, o, p)
	if err == nil {
		err = judge(lg, e, p, page)
	}
	if err != nil {
		keep(lg, o.home, e)
		return err
	}
	if o.prove {
		return prove(lg, e, p)
	}
	return nil
}

// gather runs the server under traffic and faults and collects the evidence, after a failure as far as it came.
func gather(lg *zap.Logger, o options, p profile) (e evidence, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	s, err := newServer(o.binary, o.home)
	if err != nil {
		return e, err
	}
	defer s.end(syscall.SIGKILL)
	if err := s.start(ctx); err != nil {
		return e, err
	}
	h, err := run(ctx, lg, s, p, o)
	e.reports = h.reports
	if err != nil {
		return e, err
	}
	if err := sameAfterRestart(ctx, s); err != nil {
		return e, err
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		return e, err
	}
	if e.persisted, err = persistedRequests(lg, o.kind, s.dataDir()); err != nil {
		return e, err
	}
	describe(h, e)
	return e, enough(h, p)
}

// sameAfterRestart kills an idle server: what it then reads from its disk must sum up to the same.
func sameAfterRestart(ctx context.Context, s *server) error {
	before, err := s.hash(ctx, 0)
	if err != nil {
		return fmt.Errorf("hash: %w", err)
	}
	if err := s.kill(ctx); err != nil {
		return err
	}
	after, err := s.hash(ctx, before.revision)
	if err != nil {
		return fmt.Errorf("hash after a restart: %w", err)
	}
	if before != after {
		return fmt.Errorf("hash before a restart %+v, after it %+v", before, after)
	}
	return nil
}

func persistedRequests(lg *zap.Logger, kind, dataDir string) ([]model.EtcdRequest, error) {
	if kind == "etcd" {
		return report.PersistedRequests(lg, []string{dataDir})
	}
	return readJournal(dataDir)
}

func describe(h history, e evidence) {
	done := traffic.CalculateStats(h.reports, h.begin, h.end)
	seen := traffic.CalculateWatchStats(h.reports, h.begin, h.end)
	fmt.Printf("  %d faults; %d operations succeeded, %d failed, %.0f/s; %d requests on disk\n",
		h.faults, done.Successes, done.Failures, done.QPS(), len(e.persisted))
	fmt.Printf("  %d watches, %d events, %d progress notifications\n", seen.Requests, seen.Events, seen.ProgressNotifies)
}

// enough refuses a run that was too quiet to mean anything, as it may be on a machine busy with other things.
func enough(h history, p profile) error {
	before := traffic.CalculateStats(h.reports, h.begin, h.calm)
	if before.QPS() < p.traffic.KeyValue.MinimalQPS {
		return fmt.Errorf("%w: only %.0f operations a second before the first fault, %.0f are needed",
			errUndecided, before.QPS(), p.traffic.KeyValue.MinimalQPS)
	}
	if traffic.CalculateWatchStats(h.reports, h.begin, h.end).Events == 0 {
		return fmt.Errorf("%w: no watcher saw anything", errUndecided)
	}
	return nil
}

func logger(path string) (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.OutputPaths = []string{path}
	return config.Build()
}
