package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An API server asks for leases that last longer than events by this share, and puts up to 1000 events on each.
const (
	eventLease = eventTTL + eventTTL/20
	eventCount = 1100
)

// events creates more events than one lease holds, and watches them go: none before its time, all soon after. A lease's keys
// go in one revision, which is the largest a store of Kubernetes sees.
func events(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "events")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Events are not cached: this watch is the store's.
	client := w.clients[1].CoreV1().Events(name)
	var from string
	err = w.try(ctx, "list events", func() error {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err == nil {
			from = list.ResourceVersion
		}
		return err
	})
	if err != nil {
		return err
	}
	f := follow(ctx, "watch of events", from, func(o metav1.ListOptions) (watch.Interface, error) {
		return client.Watch(ctx, o)
	})
	begun, answered, err := createEvents(ctx, w, name)
	if err != nil {
		return err
	}
	return judgeExpiry(ctx, w, name, f, begun, answered)
}

// createEvents returns when each event was asked for and when the last was acknowledged.
func createEvents(ctx context.Context, w *world, namespace string) (map[string]time.Time, time.Time, error) {
	begun := map[string]time.Time{}
	var mu sync.Mutex
	var group sync.WaitGroup
	var failure error
	for worker := range 8 {
		group.Go(func() {
			for n := worker; n < eventCount; n += 8 {
				name := fmt.Sprintf("event-%04d", n)
				mu.Lock()
				begun[name] = time.Now()
				mu.Unlock()
				err := w.try(ctx, "create an event", func() error {
					_, err := w.clients[n%2].CoreV1().Events(namespace).Create(ctx, event(namespace, name), metav1.CreateOptions{})
					return w.created(err)
				})
				if err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	return begun, time.Now(), failure
}

func event(namespace, name string) *v1.Event {
	return &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name},
		InvolvedObject: v1.ObjectReference{Kind: "Namespace", Name: namespace, Namespace: namespace},
		Reason:         "Trial", Message: "expires soon", Type: v1.EventTypeNormal,
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
	}
}

// judgeExpiry sees the events go, and then that they are gone through both API servers.
func judgeExpiry(ctx context.Context, w *world, namespace string, f *follower, begun map[string]time.Time, answered time.Time) error {
	// A crash gives leases their whole time again, as it does in etcd.
	patience := eventLease + 10*time.Second
	if w.stormy {
		patience = 5 * time.Minute
	}
	deleted, err := awaitExpiry(ctx, w, f, patience)
	// A watch of events is told nothing of progress. When it is broken off after a quiet time, what it has seen last may have
	// been compacted, and it cannot go on; whoever watches has to list then, and so do we.
	broken := w.stormy && compacted(err)
	if err != nil && !broken {
		return fmt.Errorf("%w; %d did", err, len(deleted))
	}
	var latest time.Time
	for name, at := range deleted {
		if lived := at.Sub(begun[name]); lived < eventTTL {
			return fmt.Errorf("%s lived only %v", name, lived)
		}
		if at.After(latest) {
			latest = at
		}
	}
	if len(deleted) > 0 {
		w.note("%d events seen to go, the last %.1fs after the last was created", len(deleted), latest.Sub(answered).Seconds())
	} else {
		w.note("the watch was broken off before an event went")
	}
	if !broken {
		patience = 0
	}
	for n, client := range w.clients {
		err := w.until(ctx, patience, fmt.Sprintf("API server %d to list no events", n), func() (bool, error) {
			list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
			return err == nil && len(list.Items) == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitExpiry waits until all events were seen to go, and returns when each did.
func awaitExpiry(ctx context.Context, w *world, f *follower, patience time.Duration) (map[string]time.Time, error) {
	deleted := map[string]time.Time{}
	err := w.until(ctx, patience, fmt.Sprintf("%d events to expire", eventCount), func() (bool, error) {
		told, _, err := f.soFar()
		clear(deleted)
		for _, event := range told {
			if event.kind == watch.Deleted {
				deleted[event.key] = event.at
			}
		}
		return len(deleted) >= eventCount, err
	})
	return deleted, err
}
