package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"vetch.invalid/trials/cluster"
)

const (
	loaders  = 16               // requests of the loading phases under way at once
	patience = 15 * time.Minute // for one loading phase
	reports  = 10 * time.Second // between two lines that tell of progress
)

// each does something for all numbers below count, several at once, and says how far it is.
func (r *run) each(ctx context.Context, what string, count int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range loaders {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < count && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				if err := do(ctx, n); err != nil && !apierrors.IsAlreadyExists(err) {
					cancel(fmt.Errorf("%s %d: %w", what, n, err))
					return
				}
				done.Add(1)
			}
		})
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	ticker := time.NewTicker(reports)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return context.Cause(ctx)
		case <-ticker.C:
			r.say("%s: %d of %d created", what, done.Load(), count)
		}
	}
}

// settle waits until nothing is missing any more, and says how much is.
func (r *run) settle(ctx context.Context, what string, missing func() (int, error)) error {
	told := time.Now()
	return cluster.Until(ctx, patience, 2*time.Second, what, func() (bool, error) {
		count, err := missing()
		if err == nil && time.Since(told) > reports {
			told = time.Now()
			r.say("%s: %d to go", what, count)
		}
		return err == nil && count == 0, err
	})
}

func (r *run) makeNodes(ctx context.Context) error {
	err := r.each(ctx, "nodes", r.Nodes, func(ctx context.Context, n int) error {
		return r.AddNodes(ctx, "node", n, 1, 1)
	})
	if err != nil {
		return err
	}
	return r.settle(ctx, "nodes that are ready and have a lease", func() (int, error) {
		nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, err
		}
		missing := r.Nodes
		for _, node := range nodes.Items {
			if len(node.Spec.Taints) == 0 && ready(node) {
				missing--
			}
		}
		if missing > 0 {
			return missing, nil
		}
		leases, err := r.count(ctx, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "")
		return r.Nodes - leases, err
	})
}

func ready(node v1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}

func (r *run) makePods(ctx context.Context) error {
	if err := r.each(ctx, "namespaces", r.namespaces(), r.makeNamespace); err != nil {
		return err
	}
	// Pods that are bound already need no controllers, which would only watch, with a third of the machine.
	controllers := []*cluster.Controller{r.ControllerManager, r.Scheduler}
	for _, controller := range controllers {
		controller.Stop(5 * time.Second)
	}
	bound := r.Pods - r.Scheduled
	if err := r.each(ctx, "bound pods", bound, r.makePod); err != nil {
		return err
	}
	if err := r.awaitPods(ctx, bound); err != nil {
		return err
	}
	r.say("bound pods run; CPU:%s", r.usage.spent(nil))
	for _, controller := range controllers {
		if err := controller.Start(ctx); err != nil {
			return err
		}
	}
	if err := r.each(ctx, "deployments", r.deployments(), r.makeDeployment); err != nil {
		return err
	}
	return r.awaitPods(ctx, r.Pods)
}

func (r *run) awaitPods(ctx context.Context, number int) error {
	return r.settle(ctx, "running pods", func() (int, error) {
		pods, err := r.count(ctx, "/api/v1/pods", "")
		if err != nil || pods < number {
			return number - pods, err
		}
		return r.count(ctx, "/api/v1/pods", "status.phase!=Running")
	})
}

// count asks how many objects there are, without reading them all.
func (r *run) count(ctx context.Context, path, fields string) (int, error) {
	// Only metadata; and if there is no selector, the server counts what one object is short of all.
	request := r.client.CoreV1().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	if fields == "" {
		request = request.Param("limit", "1")
	} else {
		request = request.Param("fieldSelector", fields)
	}
	body, err := request.DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	return countList(body)
}
