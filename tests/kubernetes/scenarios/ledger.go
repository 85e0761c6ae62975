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
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	field    = "value"
	selector = "churn=yes"
	sentinel = "end"
)

// operation is a change that happened for certain. The revision of a deletion is not told to who deleted.
type operation struct {
	kind  watch.EventType
	rv    string
	value string
}

// writer creates, updates and deletes keys that nobody else touches, and keeps a ledger of what happened. When an answer does
// not come, it reads until it knows; then the change has either happened as a whole or not at all.
type writer struct {
	name   string
	client corev1.ConfigMapInterface
	random *rand.Rand
	keys   int
	rest   time.Duration

	count   int
	unknown int
	ledger  map[string][]operation
	now     map[string]operation
	longest time.Duration // between two answers
	mu      sync.Mutex    // of count, for who looks on
}

func newWriter(name string, client corev1.ConfigMapInterface, random *rand.Rand, keys int) *writer {
	return &writer{name: name, client: client, random: random, keys: keys,
		ledger: map[string][]operation{}, now: map[string]operation{}}
}

// acknowledged counts the changes so far.
func (u *writer) acknowledged() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

// run writes until stop is closed.
func (u *writer) run(ctx context.Context, stop <-chan struct{}) error {
	last := time.Now()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if err := u.step(ctx); err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
		u.longest = max(u.longest, time.Since(last))
		u.mu.Lock()
		u.count++
		u.mu.Unlock()
		time.Sleep(u.rest)
		last = time.Now()
	}
}

func (u *writer) object(key, rv, value string) *v1.ConfigMap {
	return &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: key, ResourceVersion: rv, Labels: map[string]string{"churn": "yes"}},
		Data:       map[string]string{field: value},
	}
}

// step does one random change of one key.
func (u *writer) step(ctx context.Context) error {
	key := fmt.Sprintf("%s-%d", u.name, u.random.IntN(u.keys))
	now, exists := u.now[key]
	next := operation{value: strconv.FormatUint(u.random.Uint64(), 36)}
	var object *v1.ConfigMap
	var err error
	switch {
	case !exists:
		next.kind = watch.Added
		object, err = u.client.Create(ctx, u.object(key, "", next.value), metav1.CreateOptions{})
	case u.random.IntN(5) == 0:
		next.kind, next.value = watch.Deleted, now.value
		err = u.client.Delete(ctx, key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &now.rv}})
	default:
		next.kind = watch.Modified
		object, err = u.client.Update(ctx, u.object(key, now.rv, next.value), metav1.UpdateOptions{})
	}
	if err == nil {
		if object != nil {
			next.rv = object.ResourceVersion
		}
		return u.note(key, next)
	}
	if !passing(err) {
		return fmt.Errorf("%s of %s at %s: %w", next.kind, key, now.rv, err)
	}
	u.unknown++
	return u.resolve(ctx, key, now, next)
}

// note writes a change into the ledger; revisions of a key only grow.
func (u *writer) note(key string, next operation) error {
	now, exists := u.now[key]
	if exists && next.rv != "" && number(next.rv) <= number(now.rv) {
		return fmt.Errorf("%s got revision %s after %s", key, next.rv, now.rv)
	}
	u.ledger[key] = append(u.ledger[key], next)
	if next.kind == watch.Deleted {
		delete(u.now, key)
	} else {
		u.now[key] = next
	}
	return nil
}

func number(rv string) uint64 {
	n, _ := strconv.ParseUint(rv, 10, 64)
	return n
}

// resolve reads a key until it is known whether the change that was not answered has happened.
func (u *writer) resolve(ctx context.Context, key string, now, next operation) error {
	for end := time.Now().Add(2 * time.Minute); ; {
		object, err := u.client.Get(ctx, key, metav1.GetOptions{})
		if passing(err) {
			if time.Now().After(end) {
				return fmt.Errorf("no answer for two minutes: %w", err)
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return err
		}
		before := now.kind == "" && absent || !absent && now.kind != "" && object.ResourceVersion == now.rv
		after := next.kind == watch.Deleted && absent || !absent && object.Data[field] == next.value && object.ResourceVersion != now.rv
		switch {
		case before:
			return nil
		case after:
			if !absent {
				next.rv = object.ResourceVersion
			}
			return u.note(key, next)
		case absent:
			return fmt.Errorf("LOST: %s was acknowledged at %s and is not there", key, now.rv)
		default:
			return fmt.Errorf("LOST: %s is %q at %s; acknowledged was %q at %s, and %s %q is unknown", key,
				object.Data[field], object.ResourceVersion, now.value, now.rv, next.kind, next.value)
		}
	}
}

// judgeList compares a complete list with what the writers know to be there.
func judgeList(writers []*writer, list *v1.ConfigMapList) error {
	expected := map[string]operation{}
	for _, u := range writers {
		for key, now := range u.now {
			expected[key] = now
		}
	}
	for _, object := range list.Items {
		now, exists := expected[object.Name]
		if !exists {
			if object.Name == sentinel {
				continue
			}
			return fmt.Errorf("%s is listed at %s and had been deleted", object.Name, object.ResourceVersion)
		}
		if now.rv != object.ResourceVersion || now.value != object.Data[field] {
			return fmt.Errorf("LOST: %s is %q at %s, acknowledged was %q at %s", object.Name, object.Data[field],
				object.ResourceVersion, now.value, now.rv)
		}
		delete(expected, object.Name)
	}
	for key, now := range expected {
		return fmt.Errorf("LOST: %s was acknowledged at %s and is not listed (nor are %d others)", key, now.rv, len(expected)-1)
	}
	return nil
}

// judgeEvents compares the events of a watch, which began before the first change, with what happened: the same changes of
// each key, in order, each once; and revisions that only grow.
func judgeEvents(name string, writers []*writer, events []seen) error {
	told := map[string][]seen{}
	var last uint64
	for _, event := range events {
		if number(event.rv) <= last {
			return fmt.Errorf("%s: %s of %s at %s comes after %d", name, event.kind, event.key, event.rv, last)
		}
		last = number(event.rv)
		told[event.key] = append(told[event.key], event)
	}
	delete(told, sentinel)
	for _, u := range writers {
		for key, operations := range u.ledger {
			if err := judgeKey(operations, told[key]); err != nil {
				return fmt.Errorf("%s: %s: %w", name, key, err)
			}
			delete(told, key)
		}
	}
	for key, events := range told {
		return fmt.Errorf("%s: %d events of %s, which never changed", name, len(events), key)
	}
	return nil
}

func judgeKey(operations []operation, events []seen) error {
	for n, operation := range operations {
		if n >= len(events) {
			return fmt.Errorf("change %d of %d, %s at %q, was not told", n+1, len(operations), operation.kind, operation.rv)
		}
		event := events[n]
		if event.kind != operation.kind || event.value != operation.value || operation.rv != "" && event.rv != operation.rv {
			return fmt.Errorf("change %d is %s %q at %q and was told as %s %q at %q", n+1, operation.kind, operation.value,
				operation.rv, event.kind, event.value, event.rv)
		}
	}
	if len(events) > len(operations) {
		return fmt.Errorf("%d changes, but %d events", len(operations), len(events))
	}
	return nil
}
