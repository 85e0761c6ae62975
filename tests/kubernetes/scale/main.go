// Scale puts thousands of nodes and tens of thousands of pods on a control plane, once for each store, and sets what was
// measured side by side.
//
// A run has these phases: nodes, pods, a steady phase in which leases are renewed, pods come and go and lists are read,
// restarts of the store and of the API server under that load, and restarts of the API server alone. Runs of different
// stores alternate and share nothing: each has a new directory, and nothing else of ours runs meanwhile. Each run is one
// JSON file in the output directory; the table is made of all that lie there, so it can grow call by call.
//
// What this does not say: how fast a store could be. The control plane needs far more of the machine than the store
// does, so what a store adds shows in latencies, in what it uses itself, and in restarts. See scale.sh, which builds what
// is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// plan says how large, how long and on what to run.
type plan struct {
	binaries string
	servers  map[string]string // binaries of the stores by name
	stores   []string
	dir, out string
	port     int
	rounds   int
	note     string

	size
}

// size is what two runs must have in common to be compared.
type size struct {
	Nodes     int           `json:"nodes"`
	Pods      int           `json:"pods"`
	Scheduled int           `json:"scheduled"` // of the pods, those made by controllers and bound by the scheduler
	Churn     float64       `json:"churn"`     // pods deleted in a second of the steady phase
	Steady    time.Duration `json:"steady"`
	Restarts  int           `json:"restarts"` // of each kind
	Compact   time.Duration `json:"compact"`  // how often the API server compacts
	Check     time.Duration `json:"check"`    // how often it compares caches and store
}

func parse() (plan, error) {
	p := plan{servers: map[string]string{}}
	var stores, vetch, etcd string
	flag.StringVar(&p.binaries, "binaries", "", "directory of Kubernetes' binaries")
	flag.StringVar(&vetch, "vetch", "", "vetch's binary")
	flag.StringVar(&etcd, "etcd", "", "etcd's binary")
	flag.StringVar(&stores, "stores", "vetch,etcd", "which stores, in the order of the first round")
	flag.StringVar(&p.dir, "dir", os.TempDir(), "where the runs put data and logs, each in a new directory")
	flag.StringVar(&p.out, "out", "", "where results go and the table is made; a new directory if not given")
	flag.StringVar(&p.note, "note", "", "text for the head of the table, such as the store's build")
	flag.IntVar(&p.port, "port", 26500, "first of 500 ports on loopback")
	flag.IntVar(&p.rounds, "rounds", 1, "runs of each store; the order of the stores alternates")
	flag.IntVar(&p.Nodes, "nodes", 5000, "nodes")
	flag.IntVar(&p.Pods, "pods", 50000, "pods")
	flag.IntVar(&p.Scheduled, "scheduled", -1, "of them, those that Deployments and the scheduler make; a tenth, at most 2000, if not given")
	flag.Float64Var(&p.Churn, "churn", 10, "scheduled pods deleted, and so replaced, per second of the steady phase")
	flag.DurationVar(&p.Steady, "steady", 2*time.Minute, "length of the steady phase")
	flag.IntVar(&p.Restarts, "restarts", 3, "restarts of each kind")
	flag.DurationVar(&p.Compact, "compact", 30*time.Second, "the API server's compaction interval")
	flag.DurationVar(&p.Check, "check", time.Minute, "how often the API server compares its caches with the store")
	flag.Parse()
	if flag.NArg() > 0 {
		return p, fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if p.Scheduled < 0 {
		p.Scheduled = min(p.Pods/10, 2000)
	}
	p.stores = slices.DeleteFunc(strings.Split(stores, ","), func(s string) bool { return s == "" })
	p.servers["vetch"], p.servers["etcd"] = vetch, etcd
	return p, p.check()
}

func (p plan) check() error {
	for _, store := range p.stores {
		if p.servers[store] == "" {
			return fmt.Errorf("no binary for the store %q", store)
		}
	}
	const room = 100 // A node takes 110 pods; some are for those that are being replaced.
	switch {
	case p.Nodes < 1 || p.Pods < 1 || p.Scheduled > p.Pods:
		return fmt.Errorf("at least one node and one pod, and not more scheduled pods than pods")
	case p.Pods > p.Nodes*room:
		return fmt.Errorf("%d nodes have no room for %d pods: at most %d each", p.Nodes, p.Pods, room)
	case p.Churn > 0 && p.Scheduled == 0:
		return fmt.Errorf("pods that nobody replaces cannot be deleted all the time: --churn 0, or --scheduled")
	}
	return nil
}

func main() {
	p, err := parse()
	if err == nil {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		err = p.runAll(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale: FAILED:", err)
		os.Exit(1)
	}
}

func (p plan) runAll(ctx context.Context) error {
	var err error
	if p.out == "" {
		if p.out, err = os.MkdirTemp(p.dir, "vetch-scale-results-"); err != nil {
			return err
		}
	}
	if p.out, err = filepath.Abs(p.out); err != nil {
		return err
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	for round := range p.rounds {
		order := slices.Clone(p.stores)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, store := range order {
			result, err := p.runOne(ctx, store)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", store, round+1, err)
			}
			if err := result.write(p.out); err != nil {
				return err
			}
		}
	}
	return writeReport(p.out)
}
