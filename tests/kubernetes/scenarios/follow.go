package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"vetch.invalid/trials/cluster"
)

// seen is one event of a watch.
type seen struct {
	kind  watch.EventType
	key   string
	rv    string
	value string // of a ConfigMap's only field
	at    time.Time
}

func describe(kind watch.EventType, object runtime.Object) (seen, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return seen{}, err
	}
	s := seen{kind: kind, key: accessor.GetName(), rv: accessor.GetResourceVersion(), at: time.Now()}
	if object, ok := object.(*v1.ConfigMap); ok {
		s.value = object.Data[field]
	}
	return s, nil
}

// follower collects the events of a watch, and takes it up again where it was when its connection breaks.
type follower struct {
	name string
	open func(metav1.ListOptions) (watch.Interface, error)

	mu      sync.Mutex
	events  []seen
	last    string
	resumes int
	err     error
}

// follow watches from the given revision until the context ends.
func follow(ctx context.Context, name, from string, open func(metav1.ListOptions) (watch.Interface, error)) *follower {
	f := &follower{name: name, open: open, last: from, resumes: -1}
	go func() {
		for ctx.Err() == nil {
			if err := f.once(ctx); err != nil {
				f.mu.Lock()
				f.err = err
				f.mu.Unlock()
				return
			}
		}
	}()
	return f
}

// once follows one connection until it ends. An error is final.
func (f *follower) once(ctx context.Context) error {
	stream, err := f.open(metav1.ListOptions{ResourceVersion: f.last, AllowWatchBookmarks: true})
	if passing(err) {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the watch from %s is refused: %w", f.last, err)
	}
	defer stream.Stop()
	f.mu.Lock()
	f.resumes++
	f.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-stream.ResultChan():
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				err := apierrors.FromObject(event.Object)
				if passing(err) {
					return nil
				}
				return fmt.Errorf("the watch ended at %s: %w", f.last, err)
			}
			if err := f.take(event); err != nil {
				return err
			}
		}
	}
}

func (f *follower) take(event watch.Event) error {
	s, err := describe(event.Type, event.Object)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = s.rv
	if event.Type != watch.Bookmark {
		f.events = append(f.events, s)
	}
	return nil
}

// soFar returns the events up to now, how often the watch was taken up again, and why it ended if it did.
func (f *follower) soFar() ([]seen, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	if err != nil {
		err = cluster.GiveUp(fmt.Errorf("%s: %w", f.name, err))
	}
	return f.events[:len(f.events):len(f.events)], max(f.resumes, 0), err
}

// await waits until an event of the key was seen.
func (f *follower) await(ctx context.Context, w *world, key string, patience time.Duration) ([]seen, error) {
	var events []seen
	err := w.until(ctx, patience, f.name+" to see "+key, func() (bool, error) {
		var err error
		events, _, err = f.soFar()
		for n := len(events) - 1; n >= 0 && err == nil; n-- {
			if events[n].key == key {
				return true, nil
			}
		}
		return false, err
	})
	return events, err
}

// compacted tells whether an answer says that a revision is no longer there.
func compacted(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusGone
}
