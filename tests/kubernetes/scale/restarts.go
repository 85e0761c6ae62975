package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"vetch.invalid/trials/cluster"
)

const (
	recovery = 2 * time.Minute  // in which everything must work again after a restart
	calm     = 10 * time.Second // between two restarts
)

// restartStore kills the store under load and measures when it serves again, and when the API server takes writes.
func (r *run) restartStore(ctx context.Context) error {
	for n := range r.Restarts {
		r.Store.Kill()
		begun := time.Now()
		if err := r.Store.Start(ctx); err != nil {
			return err
		}
		healthy := time.Since(begun)
		if err := r.awaitWrite(ctx, fmt.Sprintf("store-%d", n)); err != nil {
			return err
		}
		writable := time.Since(begun)
		r.say("store restart %d: healthy after %.2fs, writes after %.2fs", n+1, healthy.Seconds(), writable.Seconds())
		r.result.add(groupStarts, "store, killed: until healthy", seconds, healthy.Seconds())
		r.result.add(groupStarts, "store, killed: until a write through the API server succeeds", seconds,
			writable.Seconds())
		r.pause(ctx, "catching up", calm)
	}
	return nil
}

// awaitWrite tries to create an object until it is there. A failed try may have made it all the same, so each has a
// name of its own.
func (r *run) awaitWrite(ctx context.Context, name string) error {
	try := 0
	return cluster.Until(ctx, recovery, 20*time.Millisecond, "a write", func() (bool, error) {
		try++
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := r.client.CoreV1().ConfigMaps("default").Create(ctx, configMap(fmt.Sprintf("%s-%d", name, try)),
			metav1.CreateOptions{})
		return err == nil, err
	})
}

// restartServer kills the API server and measures when its caches are filled: once with all its clients, which read
// everything anew at the same time, then without them.
func (r *run) restartServer(ctx context.Context) error {
	if err := r.timeServer(ctx, "API server with its clients"); err != nil {
		return err
	}
	r.pause(ctx, "catching up", calm)
	for _, client := range []*cluster.Controller{r.Kwok, r.Scheduler, r.ControllerManager} {
		client.Stop(5 * time.Second)
	}
	for range r.Restarts {
		if err := r.timeServer(ctx, "API server alone"); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) timeServer(ctx context.Context, what string) error {
	server := r.APIServers[0]
	server.Kill()
	cpu, begun := r.usage.storeCPU(), time.Now()
	if err := server.Start(ctx); err != nil {
		return err
	}
	took := time.Since(begun)
	used := r.usage.storeCPU() - cpu
	metrics, err := server.Metrics(ctx)
	if err != nil {
		return err
	}
	fill := func(resource string) float64 {
		return metrics.Histogram("apiserver_watch_cache_initialization_duration_seconds",
			cluster.Labels{"resource": resource}).Sum
	}
	r.say("%s: ready after %.2fs; caches filled: pods in %.2fs, nodes in %.2fs, leases in %.2fs; store's CPU %.2fs", what,
		took.Seconds(), fill("pods"), fill("nodes"), fill("leases"), used.Seconds())
	r.result.add(groupStarts, what+": until ready, all caches filled", seconds, took.Seconds())
	for _, resource := range []string{"pods", "nodes", "leases"} {
		r.result.add(groupStarts, what+": cache of "+resource, seconds, fill(resource))
	}
	r.result.add(groupStarts, what+": CPU of the store until ready", seconds, used.Seconds())
	return nil
}
