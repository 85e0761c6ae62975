// Scenarios plays what a cluster does, on a control plane whose store is vetch, or etcd for comparison.
//
// All scenarios share one cluster with two API servers: the first reads lists from the store by RangeStream and serves
// old revisions from its caches, the second reads pages and leaves old revisions to the store. At the end every process
// must have lived as it should, and the logs must be clean. See run.sh, which builds what is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"vetch.invalid/trials/cluster"
)

// scenario is one play.
type scenario struct {
	name  string
	fast  bool // also part of the fast subset
	about string
	play  func(context.Context, *world) error
}

var scenarios = []scenario{
	{"deployment", true, "a Deployment is created, scaled, rolled and deleted", deployment},
	{"kubelets", false, "hollow kubelets join and run a DaemonSet", kubelets},
	{"namespace", true, "a namespace's deletion waits for a finalizer, then completes", namespaceFinalizer},
	{"crd", true, "a CRD with custom resources comes, changes and goes", customResources},
	{"election", true, "candidates take over from a killed leader; the controllers hold their leases", election},
	{"events", true, "more events than one lease holds expire when they should", events},
	{"two-servers", true, "what one API server wrote the other reads at once; no update is lost", twoServers},
	{"lists", true, "pages, old and future revisions, by stream and by pages; compacted ones are gone", lists},
	{"kubectl-watch", true, "kubectl sees every change, though the store is killed meanwhile", kubectlWatch},
	{"server-restart", true, "an API server is killed and started in the middle of churn", serverRestart},
	{"store-crash", true, "the store is killed again and again in the middle of churn", storeCrash},
	{"aborts", true, "lists are given up, watches come in crowds, clients drop connections, API servers restart", aborts},
	{"consistency", true, "the API servers have compared their caches with the store", consistencyChecks},
}

type arguments struct {
	binaries, store, kind, dir, lose string
	port, members                    int
	journal                          string
	seed                             uint64
	rounds                           int
	storm, aborts                    time.Duration
	tls, fast, list                  bool
	only                             []string
}

func parse() arguments {
	var a arguments
	flag.StringVar(&a.binaries, "binaries", "", "directory of Kubernetes' binaries")
	flag.StringVar(&a.store, "store-binary", "", "the store's binary")
	flag.StringVar(&a.kind, "store", "vetch", "what the store is: vetch or etcd")
	flag.IntVar(&a.members, "members", 1, "how many servers the store is; the one that writes is the one that is killed")
	flag.StringVar(&a.journal, "journal-binary", "", "nats-server, on which several members of vetch keep their journal")
	flag.StringVar(&a.dir, "dir", "", "where data and logs go; a new directory if not given")
	flag.IntVar(&a.port, "port", 26000, "first of 500 ports on loopback")
	flag.Uint64Var(&a.seed, "seed", 0, "seed of what is random; chosen by the clock if 0")
	flag.BoolVar(&a.fast, "fast", false, "the fast subset")
	flag.DurationVar(&a.storm, "storm", 0, "kill the store about so often (25s, say) during all scenarios")
	flag.IntVar(&a.rounds, "rounds", 1, "play all so many times on the same cluster")
	flag.DurationVar(&a.aborts, "aborts", 20*time.Second, "how long the scenario of that name lasts")
	flag.BoolVar(&a.tls, "tls", false, "between API servers and store, with certificates on both sides")
	flag.StringVar(&a.lose, "lose", "", "what the store loses when it is killed, to see scenarios fail: all, or recent")
	flag.BoolVar(&a.list, "list", false, "only list the scenarios")
	flag.Parse()
	a.only = flag.Args()
	if a.seed == 0 {
		a.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	return a
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "candidate" {
		candidate(os.Args[2:])
		return
	}
	a := parse()
	silenceClients()
	if a.list {
		for _, s := range scenarios {
			fmt.Printf("%-16s %s%s\n", s.name, s.about, map[bool]string{false: " (not in --fast)"}[s.fast])
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	failed, err := run(ctx, a)
	if err != nil {
		say("FAILED: %v", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// silenceClients keeps client-go from logging every request that is given up.
func silenceClients() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			say("klog: %v", err)
		}
	}
	klog.SetOutput(io.Discard)
}

func say(format string, arguments ...any) { fmt.Printf("scenarios: "+format+"\n", arguments...) }

// chosen selects the scenarios to play; the comparison of caches always comes last.
func chosen(a arguments) ([]scenario, error) {
	var chosen []scenario
	for _, s := range scenarios {
		if slices.Contains(a.only, s.name) || len(a.only) == 0 && (s.fast || !a.fast) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range a.only {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return nil, fmt.Errorf("no such scenario: %s (--list shows them)", name)
		}
	}
	return chosen, nil
}

func run(ctx context.Context, a arguments) (int, error) {
	plays, err := chosen(a)
	if err != nil {
		return 0, err
	}
	if a.dir == "" {
		if a.dir, err = os.MkdirTemp("", "vetch-kubernetes-"); err != nil {
			return 0, err
		}
	}
	if a.dir, err = filepath.Abs(a.dir); err != nil {
		return 0, err
	}
	plays = slices.Repeat(plays, a.rounds)
	begun := time.Now()
	say("seed %d; logs in %s", a.seed, filepath.Join(a.dir, "logs"))
	c, err := start(ctx, a)
	if err != nil {
		return 0, fmt.Errorf("the cluster does not start: %w (logs in %s)", err, filepath.Join(a.dir, "logs"))
	}
	defer c.Stop()
	say("the control plane on %s is up (%.1fs)", a.kind, time.Since(begun).Seconds())
	w := &world{Cluster: c, fast: a.fast, lose: a.lose, stormy: a.storm > 0, aborts: a.aborts}
	for _, server := range c.APIServers {
		w.clients = append(w.clients, server.Client())
	}
	failures := w.playAll(ctx, a, plays)
	// Told apart from scenarios, because a crash of any process matters whichever scenario it fell into.
	c.Stop()
	wrong := verdict(c)
	for _, line := range wrong {
		say("FAILED after all: %s", line)
	}
	summary := fmt.Sprintf("%d of %d scenarios passed on %s in %.0fs", len(plays)-failures, len(plays), a.kind,
		time.Since(begun).Seconds())
	if failures == 0 && len(wrong) == 0 {
		say("%s; the store was killed %d times%s; no process ended by itself; logs are clean", summary, w.kills, takeovers(c.Store))
		if os.Getenv("KEEP") == "" {
			_ = os.RemoveAll(a.dir)
		}
		return 0, nil
	}
	say("%s; FAILED; logs and data are kept in %s; seed %d", summary, a.dir, a.seed)
	return failures + len(wrong), nil
}

// takeovers says how long it took until another server wrote.
func takeovers(store *cluster.Store) string {
	if len(store.Takeovers) == 0 {
		return ""
	}
	all := slices.Sorted(slices.Values(store.Takeovers))
	return fmt.Sprintf(" and another server wrote after %.1fs (median), %.1fs at most", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}

// start starts the cluster that all scenarios share, with a few nodes.
func start(ctx context.Context, a arguments) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: a.dir, Binaries: a.binaries, StoreBinary: a.store, Port: a.port,
		Members:            a.members,
		Journal:            a.journal,
		TLS:                a.tls,
		APIServers:         2,
		GatesOf:            []map[string]bool{nil, {"EtcdRangeStream": false, "ListFromCacheSnapshot": false}},
		CompactionInterval: compactionInterval,
		EventTTL:           eventTTL,
		ConsistencyPeriod:  consistencyPeriod,
	})
	if err != nil {
		return nil, err
	}
	if err := c.AddNodes(ctx, "node", 0, nodes, 4); err != nil {
		c.Stop()
		return nil, err
	}
	if err := c.AwaitNodes(ctx, nodes, 3*time.Minute); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

const (
	nodes              = 5
	compactionInterval = 8 * time.Second
	eventTTL           = 20 * time.Second
	consistencyPeriod  = 15 * time.Second
)

// playAll plays one scenario after the other and counts those that failed.
func (w *world) playAll(ctx context.Context, a arguments, plays []scenario) int {
	stormCtx, calm := context.WithCancel(ctx)
	ended := make(chan error, 1)
	if a.storm > 0 {
		go func() { ended <- w.storm(stormCtx, a.storm, rand.New(rand.NewPCG(a.seed, 0))) }()
	} else {
		ended <- nil
	}
	failures := 0
	for n, s := range plays {
		if ctx.Err() != nil {
			say("interrupted")
			failures += len(plays) - n
			break
		}
		w.random = rand.New(rand.NewPCG(a.seed, uint64(n+1)))
		w.notes = nil
		begun := time.Now()
		err := w.play(ctx, s)
		took := time.Since(begun).Seconds()
		if err != nil {
			failures++
			say("%-16s FAILED (%.1fs): %v", s.name, took, err)
			continue
		}
		say("%-16s passed (%.1fs) %s", s.name, took, strings.Join(w.notes, ", "))
	}
	calm()
	if err := <-ended; err != nil {
		failures++
		say("the store did not come back: %v", err)
	}
	return failures
}

func (w *world) play(ctx context.Context, s scenario) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute+w.aborts)
	defer cancel()
	return s.play(ctx, w)
}
