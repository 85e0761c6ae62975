package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"vetch.invalid/trials/cluster"
)

// run is one store's run.
type run struct {
	*cluster.Cluster
	plan
	store  string
	begun  time.Time
	config *rest.Config
	client *kubernetes.Clientset
	usage  *sampler
	result *result
}

func (r *run) say(format string, arguments ...any) {
	fmt.Printf("%s %4.0fs  %s\n", r.store, time.Since(r.begun).Seconds(), fmt.Sprintf(format, arguments...))
}

// runOne starts a cluster on the store, plays all phases and ends it. The data is removed, unless something was wrong.
func (p plan) runOne(ctx context.Context, store string) (*result, error) {
	dir, err := os.MkdirTemp(p.dir, "vetch-scale-"+store+"-")
	if err != nil {
		return nil, err
	}
	r := &run{plan: p, store: store, begun: time.Now(), result: newResult(p, store)}
	options, err := p.options(store, dir)
	if err != nil {
		return nil, err
	}
	r.say("starts; logs in %s", filepath.Join(dir, "logs"))
	if r.Cluster, err = cluster.Start(ctx, options); err != nil {
		return nil, fmt.Errorf("the cluster does not start: %w (logs in %s)", err, dir)
	}
	defer r.Stop()
	r.connect()
	r.usage = watchUsage(r.Cluster)
	defer r.usage.stop()
	if err := r.play(ctx); err != nil {
		return nil, fmt.Errorf("%w (logs in %s)", err, dir)
	}
	r.usage.stop()
	r.Stop()
	if wrong := r.wrong(); len(wrong) > 0 {
		return nil, fmt.Errorf("%s (logs in %s)", strings.Join(wrong, "; "), dir)
	}
	r.result.Seconds = time.Since(r.begun).Seconds()
	r.say("done")
	return r.result, os.RemoveAll(dir)
}

func (r *run) play(ctx context.Context) error {
	for _, phase := range []struct {
		name string
		play func(context.Context) error
	}{
		{"nodes", r.makeNodes},
		{"pods", r.makePods},
		{"steady", r.steady},
		{"store restarts", r.restartStore},
		{"API server restarts", r.restartServer},
	} {
		begun, cpu, all := time.Now(), r.usage.storeCPU(), r.usage.cpu()
		r.say("phase: %s", phase.name)
		if err := phase.play(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		took := time.Since(begun).Seconds()
		r.say("phase: %s took %.0fs; CPU:%s", phase.name, took, r.usage.spent(all))
		if phase.name == "nodes" || phase.name == "pods" {
			r.result.add(groupLoad, phase.name+": time", seconds, took)
			r.result.add(groupLoad, phase.name+": CPU of the store", seconds, (r.usage.storeCPU() - cpu).Seconds())
		}
	}
	return nil
}

// options are the same for all stores.
func (p plan) options(store, dir string) (cluster.Options, error) {
	kwok, err := kwokConfig(dir)
	if err != nil {
		return cluster.Options{}, err
	}
	// The default limits would make the trial measure them. There is one controller of each kind, and it has to outlast
	// restarts of the API server, so none is elected.
	limits := []string{"--kube-api-qps=1000", "--kube-api-burst=2000", "--leader-elect=false", "--v=1"}
	return cluster.Options{
		Dir: dir, Binaries: p.binaries, StoreBinary: p.servers[store], Port: p.port,
		CompactionInterval: p.Compact,
		ConsistencyPeriod:  p.Check,
		APIServerFlags: []string{"--enable-priority-and-fairness=false", "--max-requests-inflight=3000",
			"--max-mutating-requests-inflight=2000", "--v=1"},
		ControllerManagerFlags: append(limits, "--concurrent-replicaset-syncs=10"),
		SchedulerFlags:         limits,
		KwokFlags:              []string{"--config=" + kwok, "--cidr=10.0.0.1/8", "--v=ERROR"},
	}, nil
}

// kwokConfig lets kwok do more at once than its four of everything, so that it keeps up with thousands of nodes.
func kwokConfig(dir string) (string, error) {
	path := filepath.Join(dir, "kwok.yaml")
	return path, os.WriteFile(path, []byte(`apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodeLeaseParallelism: 32
  nodePlayStageParallelism: 16
  podPlayStageParallelism: 16
`), 0o644)
}

// connect makes the clients by which the run itself works: they speak protobuf, so as to leave the machine to others.
func (r *run) connect() {
	r.config = rest.CopyConfig(r.APIServers[0].Config)
	r.config.ContentType = runtime.ContentTypeProtobuf
	r.config.AcceptContentTypes = runtime.ContentTypeProtobuf
	r.config.DisableCompression = true
	r.client = kubernetes.NewForConfigOrDie(r.config)
}

// wrong lists what must not happen: processes that end by themselves, above all an API server that found its cache to
// differ from the store.
func (r *run) wrong() []string {
	var wrong []string
	for _, process := range r.Processes() {
		wrong = append(wrong, process.Deaths()...)
	}
	return wrong
}
