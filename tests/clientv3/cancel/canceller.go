package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	bulk      = "bulk/"
	bulkKeys  = 32
	bulkValue = 64 << 10
	// Keys of writes that may be cancelled.
	unsure     = "unsure/"
	unsureKeys = 512
)

// kind is one kind of call, how often it is made, and the latest moment at which it is cancelled. That moment moves until
// about one call in ten is answered before it, so that calls are cancelled in all their states on any machine.
type kind struct {
	name      string
	weight    int
	latest    time.Duration
	refusable bool // the server may bound how many there are
	endless   bool // it ends only when it is cancelled
	call      func(*caller, context.Context) error

	limit               atomic.Int64
	cancelled, answered atomic.Int64
}

// kinds are all that is cancelled.
func kinds() []*kind {
	return []*kind{
		{name: "put", weight: 20, latest: 4 * time.Millisecond, call: (*caller).put},
		{name: "txn", weight: 14, latest: 4 * time.Millisecond, call: (*caller).txn},
		{name: "get", weight: 20, latest: 2 * time.Millisecond, call: (*caller).get},
		{name: "range", weight: 4, latest: 30 * time.Millisecond, call: (*caller).large},
		{name: "range stream", weight: 4, latest: 30 * time.Millisecond, call: (*caller).stream},
		{name: "watch", weight: 8, latest: 10 * time.Millisecond, endless: true, call: (*caller).watch},
		{name: "watch stream", weight: 6, latest: 10 * time.Millisecond, endless: true, call: (*caller).watchStream},
		{name: "snapshot", weight: 1, latest: 30 * time.Millisecond, refusable: true, call: (*caller).snapshot},
		{name: "keep-alive", weight: 8, latest: 2 * time.Millisecond, call: (*caller).keepAlive},
		{name: "grant", weight: 4, latest: 2 * time.Millisecond, call: (*caller).grant},
	}
}

// canceller makes calls on clients that it shares with others, and cancels them.
type canceller struct {
	a       arguments
	j       *journal
	clients []*clientv3.Client
	all     []*kind
	total   int
	// The server may send few snapshots at once.
	snapshots chan struct{}
}

func newCanceller(a arguments, j *journal, clients []*clientv3.Client) *canceller {
	c := &canceller{a: a, j: j, clients: clients, all: kinds(), snapshots: make(chan struct{}, 1)}
	for _, kind := range c.all {
		c.total += kind.weight
		kind.limit.Store(int64(kind.latest))
	}
	return c
}

// run returns when enough calls were cancelled, or the context has ended.
func (c *canceller) run(ctx context.Context) {
	var group sync.WaitGroup
	for n, client := range c.clients {
		for worker := range c.a.workers {
			random := rand.New(rand.NewPCG(c.a.seed, uint64(n*1000+worker)))
			group.Go(func() {
				k := &caller{canceller: c, client: client, random: random}
				k.run(ctx)
			})
		}
	}
	group.Wait()
}

// kinds says how many calls of each kind were cancelled, and until when.
func (c *canceller) kinds() string {
	var text strings.Builder
	for _, kind := range c.all {
		fmt.Fprintf(&text, ", %s %d (%.1f ms)", kind.name, kind.cancelled.Load(), float64(kind.limit.Load())/1e6)
	}
	return text.String()
}

// caller makes one call after the other.
type caller struct {
	*canceller
	client *clientv3.Client
	random *rand.Rand
	lease  clientv3.LeaseID
}

func (k *caller) run(ctx context.Context) {
	lease, err := k.client.Grant(ctx, 600)
	if err != nil {
		k.j.fail("grant: %v", err)
		return
	}
	k.lease = lease.ID
	for ctx.Err() == nil && k.j.cancelled.Load() < k.a.calls {
		k.once(ctx, k.choose())
	}
	if ctx.Err() == nil {
		if _, err := k.client.Revoke(ctx, k.lease); err != nil {
			k.j.fail("revoke: %v", err)
		}
	}
}

func (k *caller) choose() *kind {
	n := k.random.IntN(k.total)
	for _, kind := range k.all {
		if n -= kind.weight; n < 0 {
			return kind
		}
	}
	return k.all[0]
}

// adapt moves the latest moment after a call.
func (kind *kind) adapt(answered bool) {
	was := kind.limit.Load()
	next := was + was/90
	if answered {
		next = was - was/10
	}
	if !kind.endless && next > int64(100*time.Microsecond) && next < int64(3*time.Second) {
		kind.limit.CompareAndSwap(was, next)
	}
}

// once makes a call and cancels it at a moment between 5 µs and the kind's latest, or lets its deadline pass then.
func (k *caller) once(ctx context.Context, kind *kind) {
	latest := float64(kind.limit.Load())
	moment := time.Duration(latest * k.random.Float64())
	// Some early: before the call is on its way, or at once behind it.
	if k.random.IntN(3) == 0 {
		moment = time.Duration(5000 * math.Pow(latest/5000, k.random.Float64()))
	}
	var own context.Context
	var cancel context.CancelFunc
	deadline := k.random.IntN(4) == 0
	if deadline {
		own, cancel = context.WithTimeout(ctx, moment)
	} else {
		own, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(moment, cancel)
		defer timer.Stop()
	}
	defer cancel()
	err := kind.call(k, own)
	due := own.Err() != nil
	// A server counts the time of a deadline by itself, and may be a little earlier.
	if deadline && err != nil && cancelled(err) {
		due = true
	}
	if ctx.Err() == nil {
		kind.adapt(err == nil)
		k.j.outcome(kind, due, err)
	}
}

// identity is the value of a write that may be cancelled.
func (k *caller) identity() string { return fmt.Sprintf("%016x", k.j.identities.Add(1)) }

func (k *caller) put(ctx context.Context) error {
	_, err := k.client.Put(ctx, fmt.Sprintf("%s%d", unsure, k.random.IntN(unsureKeys)), k.identity())
	return err
}

// txn writes two keys with one identity, which must be seen in one revision.
func (k *caller) txn(ctx context.Context) error {
	identity, n := k.identity(), k.random.IntN(unsureKeys)
	first, second := fmt.Sprintf("%spair/%d/a", unsure, n), fmt.Sprintf("%spair/%d/b", unsure, n)
	_, err := k.client.Txn(ctx).If(clientv3.Compare(clientv3.Version(first), ">", -1)).
		Then(clientv3.OpPut(first, identity), clientv3.OpPut(second, identity), clientv3.OpGet(unsure, clientv3.WithPrefix(), clientv3.WithLimit(50))).
		Commit()
	return err
}

func (k *caller) get(ctx context.Context) error {
	_, err := k.client.Get(ctx, unsure, clientv3.WithPrefix(), clientv3.WithLimit(int64(1+k.random.IntN(100))))
	return err
}

func (k *caller) large(ctx context.Context) error {
	answer, err := k.client.Get(ctx, bulk, clientv3.WithPrefix())
	if err == nil && len(answer.Kvs) != bulkKeys {
		k.j.fail("a range has %d keys", len(answer.Kvs))
	}
	return err
}

func (k *caller) stream(ctx context.Context) error {
	chunks, err := k.client.GetStream(ctx, bulk, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	keys := 0
	for chunk := range chunks {
		if err := chunk.Err(); err != nil {
			// The channel is closed behind an error.
			return err
		}
		keys += len(chunk.Kvs)
	}
	if keys != bulkKeys {
		k.j.fail("a range stream has %d keys", keys)
	}
	return nil
}

// watch shares its stream with the other watches of the client; it is cancelled by a message.
func (k *caller) watch(ctx context.Context) error {
	return drain(ctx, k.client.Watch(ctx, unsure, clientv3.WithPrefix(), clientv3.WithCreatedNotify()))
}

// watchStream has a stream of its own, which is reset.
func (k *caller) watchStream(ctx context.Context) error {
	watcher := clientv3.NewWatcher(k.client)
	defer watcher.Close()
	return drain(ctx, watcher.Watch(ctx, unsure, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithProgressNotify()))
}

func drain(ctx context.Context, events clientv3.WatchChan) error {
	for answer := range events {
		if err := answer.Err(); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return errors.New("the watch ended")
	}
	return ctx.Err()
}

func (k *caller) snapshot(ctx context.Context) error {
	select {
	case k.snapshots <- struct{}{}:
		defer func() { <-k.snapshots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	answer, err := k.client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer answer.Close()
	_, err = io.Copy(io.Discard, answer)
	return err
}

func (k *caller) keepAlive(ctx context.Context) error {
	_, err := k.client.KeepAliveOnce(ctx, k.lease)
	return err
}

// grant leaves a lease that ends soon.
func (k *caller) grant(ctx context.Context) error {
	_, err := k.client.Grant(ctx, 2)
	return err
}
