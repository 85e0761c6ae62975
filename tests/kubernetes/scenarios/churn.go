package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"vetch.invalid/trials/cluster"
)

// churn is writers at work in a namespace, through all API servers.
type churn struct {
	w         *world
	namespace string
	writers   []*writer
	stop      chan struct{}
	group     sync.WaitGroup
	mu        sync.Mutex
	err       error
}

// startChurn puts some writers on each API server, which rest after each change as long as is said.
func startChurn(ctx context.Context, w *world, namespace string, each int, rest time.Duration) *churn {
	c := &churn{w: w, namespace: namespace, stop: make(chan struct{})}
	for server, client := range w.clients {
		for n := range each {
			name := fmt.Sprintf("writer-%d-%d", server, n)
			random := rand.New(rand.NewPCG(w.random.Uint64(), w.random.Uint64()))
			u := newWriter(name, client.CoreV1().ConfigMaps(namespace), random, 20)
			u.rest = rest
			c.writers = append(c.writers, u)
		}
	}
	for _, u := range c.writers {
		c.group.Go(func() {
			if err := u.run(ctx, c.stop); err != nil {
				c.mu.Lock()
				c.err = err
				c.mu.Unlock()
			}
		})
	}
	return c
}

// progress waits until every writer has done some more.
func (c *churn) progress(ctx context.Context, more int, patience time.Duration) error {
	before := make([]int, len(c.writers))
	for n, u := range c.writers {
		before[n] = u.acknowledged()
	}
	return c.w.until(ctx, patience, "all writers to make progress", func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			return false, cluster.GiveUp(c.err)
		}
		for n, u := range c.writers {
			if u.acknowledged() < before[n]+more {
				return false, nil
			}
		}
		return true, nil
	})
}

// finish ends the writers and says what they did.
func (c *churn) finish() error {
	close(c.stop)
	c.group.Wait()
	total, unknown := 0, 0
	var longest time.Duration
	for _, u := range c.writers {
		total += u.count
		unknown += u.unknown
		longest = max(longest, u.longest)
	}
	c.w.note("%d changes, %d of them unanswered, longest wait %.1fs", total, unknown, longest.Seconds())
	return c.err
}

// judge compares what each API server lists, and what the followers were told, with what the writers know.
func (c *churn) judge(ctx context.Context, followers ...*follower) error {
	for n, client := range c.w.clients {
		err := c.w.try(ctx, "list", func() error {
			list, err := client.CoreV1().ConfigMaps(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return err
			}
			return judgeList(c.writers, list)
		})
		if err != nil {
			return fmt.Errorf("API server %d: %w", n, err)
		}
	}
	if err := c.end(ctx); err != nil {
		return err
	}
	for _, f := range followers {
		events, err := f.await(ctx, c.w, sentinel, 30*time.Second)
		if err != nil {
			return err
		}
		if err := judgeEvents(f.name, c.writers, events); err != nil {
			return err
		}
		_, resumes, _ := f.soFar()
		c.w.note("%s: %d events, %d resumes", f.name, len(events), resumes)
	}
	return nil
}

// end writes the key whose event is the last that followers wait for.
func (c *churn) end(ctx context.Context) error {
	client := c.w.clients[0].CoreV1().ConfigMaps(c.namespace)
	return c.w.try(ctx, "create the last object", func() error {
		_, err := client.Create(ctx, c.writers[0].object(sentinel, "", ""), metav1.CreateOptions{})
		return c.w.created(err)
	})
}

// followConfigMaps watches the writers' objects through one API server, from now on.
func (w *world) followConfigMaps(ctx context.Context, namespace string, server int) (*follower, error) {
	client := w.clients[server].CoreV1().ConfigMaps(namespace)
	var from string
	err := w.try(ctx, "list", func() error {
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			from = list.ResourceVersion
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return follow(ctx, fmt.Sprintf("watch %d", server), from, func(o metav1.ListOptions) (watch.Interface, error) {
		o.LabelSelector = selector
		return client.Watch(ctx, o)
	}), nil
}
