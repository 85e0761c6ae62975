package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// list is a list that is read again and again at the latest revision: no version is asked for, so the API server asks
// the store for its revision and waits until its cache has caught up.
type list struct {
	name   string
	period time.Duration
	path   func() string
}

func (r *run) lists() []list {
	fixed := func(path string) func() string { return func() string { return path } }
	return []list{
		// Nobody writes secrets at the time, so only the store can tell the cache that it is up to date.
		{"secrets of a namespace (none; quiet)", 100 * time.Millisecond, func() string {
			return fmt.Sprintf("/api/v1/namespaces/%s/secrets", r.namespace(rand.IntN(1000)))
		}},
		{fmt.Sprintf("config maps of a namespace (%d)", spaceConfigs), 100 * time.Millisecond, func() string {
			return fmt.Sprintf("/api/v1/namespaces/%s/configmaps", r.namespace(rand.IntN(1000)))
		}},
		{fmt.Sprintf("pods of a node (%d)", r.Pods/r.Nodes), 100 * time.Millisecond, func() string {
			return fmt.Sprintf("/api/v1/pods?fieldSelector=spec.nodeName%%3Dnode-%d", rand.IntN(r.Nodes))
		}},
		{fmt.Sprintf("leases of all nodes (%d)", r.Nodes), time.Second,
			fixed("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")},
		{fmt.Sprintf("nodes (%d)", r.Nodes), 2 * time.Second, fixed("/api/v1/nodes")},
		{"a page of 500 pods", time.Second, fixed("/api/v1/pods?limit=500")},
		{fmt.Sprintf("all pods (%d)", r.Pods), 20 * time.Second, fixed("/api/v1/pods")},
	}
}

// readLists reads one list at even times.
func (r *run) readLists(ctx context.Context, l list, times *stopwatch) {
	every(ctx, l.period, func() {
		times.measure(ctx, l.name, func() error {
			body, err := r.client.CoreV1().RESTClient().Get().RequestURI(l.path()).Stream(ctx)
			if err != nil {
				return err
			}
			defer body.Close()
			_, err = io.Copy(io.Discard, body)
			return err
		})
	})
}
