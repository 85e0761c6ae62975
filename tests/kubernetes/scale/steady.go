package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

const warmUp = 20 * time.Second // of the steady load before anything is measured

// steady lets leases be renewed, pods come and go, and lists be read, and measures all of it.
func (r *run) steady(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	times := newStopwatch()
	load.Go(func() { r.churn(ctx, times) })
	load.Go(func() { r.probe(ctx, times) })
	for _, list := range r.lists() {
		load.Go(func() { r.readLists(ctx, list, times) })
	}
	r.pause(ctx, "warming up", warmUp)
	times.reset()
	before, err := r.APIServers[0].Metrics(ctx)
	if err != nil {
		return err
	}
	first, err := r.revision(ctx)
	if err != nil {
		return err
	}
	r.usage.begin()
	r.pause(ctx, "steady", r.Steady)
	used := r.usage.end()
	last, err := r.revision(ctx)
	if err != nil {
		return err
	}
	after, err := r.APIServers[0].Metrics(ctx)
	if err != nil {
		return err
	}
	if err := times.failure(); err != nil {
		return err
	}
	r.reportSteady(before, after, used, times, float64(last-first))
	return r.reportObjects(ctx)
}

// pause waits and says from time to time how long still.
func (r *run) pause(ctx context.Context, what string, length time.Duration) {
	for end := time.Now().Add(length); ctx.Err() == nil; {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, 3*reports)):
			r.say("%s: %.0fs to go", what, max(0, time.Until(end).Seconds()))
		}
	}
}

// revision is the store's current one.
func (r *run) revision(ctx context.Context) (int64, error) {
	list, err := r.client.CoreV1().ConfigMaps(r.namespace(0)).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(list.ResourceVersion, 10, 64)
}

// every calls something at even times, whether or not earlier calls have returned, until the context ends.
func every(ctx context.Context, period time.Duration, do func()) {
	var calls sync.WaitGroup
	defer calls.Wait()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			calls.Go(do)
		}
	}
}

// churn deletes pods that a Deployment replaces, so that each costs a deletion, a creation, a binding and a start.
func (r *run) churn(ctx context.Context, times *stopwatch) {
	if r.Churn <= 0 {
		return
	}
	names := metadata.NewForConfigOrDie(r.APIServers[0].Config).Resource(v1.SchemeGroupVersion.WithResource("pods"))
	owed := 0.0
	for n := 0; ctx.Err() == nil; n++ {
		begun := time.Now()
		owed += r.Churn
		namespace := r.namespace(n)
		list, err := names.Namespace(namespace).List(ctx, metav1.ListOptions{
			LabelSelector: "made=scheduled", ResourceVersion: "0",
		})
		if err != nil {
			times.fail(ctx, fmt.Errorf("listing pods to delete: %w", err))
			return
		}
		pick := rand.Perm(len(list.Items))
		pick = pick[:min(len(pick), int(owed))]
		owed -= float64(len(pick))
		for _, chosen := range pick {
			name := list.Items[chosen].Name
			if list.Items[chosen].DeletionTimestamp != nil {
				continue
			}
			times.measure(ctx, "pod: delete", func() error {
				err := r.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					return nil // The list was from the cache, and the pod was already chosen.
				}
				return err
			})
			r.rest(ctx, begun, time.Second/time.Duration(max(1, len(pick))))
			begun = time.Now()
		}
		if len(pick) == 0 {
			r.rest(ctx, begun, time.Second)
		}
	}
}

// rest sleeps until so much time has passed.
func (r *run) rest(ctx context.Context, since time.Time, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length - time.Since(since)):
	}
}

// probe does single requests of each kind, five times a second, on objects that are of no concern to anyone else.
func (r *run) probe(ctx context.Context, times *stopwatch) {
	maps := r.client.CoreV1().ConfigMaps("default")
	number := 0
	var mu sync.Mutex
	every(ctx, 200*time.Millisecond, func() {
		mu.Lock()
		number++
		object := configMap(fmt.Sprintf("probe-%d", number))
		mu.Unlock()
		times.measure(ctx, "config map: create", func() error {
			_, err := maps.Create(ctx, object, metav1.CreateOptions{})
			return err
		})
		times.measure(ctx, "config map: get", func() (err error) {
			object, err = maps.Get(ctx, object.Name, metav1.GetOptions{})
			return err
		})
		if object == nil || object.Data == nil {
			return
		}
		object.Data["more"] = "true"
		times.measure(ctx, "config map: update", func() error {
			_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
			return err
		})
		times.measure(ctx, "config map: delete", func() error {
			return maps.Delete(ctx, object.Name, metav1.DeleteOptions{})
		})
	})
}
