package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"vetch.invalid/clientv3/server"
)

const (
	sure     = "sure/"
	counters = 6
	// No call of normal traffic takes longer.
	limit = 30 * time.Second
)

// polite is the traffic that is never cancelled: on the connections whose other calls are, and on two of its own.
type polite struct {
	j      *journal
	shared []*clientv3.Client
	own    []*clientv3.Client
	stop   chan struct{}
	group  sync.WaitGroup
	cancel context.CancelFunc // of the watches, at the end

	counters               [counters]counter
	changes, reads, events atomic.Int64
	snapshots              atomic.Int64
	revision               atomic.Int64 // the newest that the watch of everything has shown
	slowest                atomic.Int64
}

// counter is a key that counts the acknowledged changes of it.
type counter struct {
	changes  atomic.Int64
	revision atomic.Int64 // of the newest acknowledged change
}

func startPolite(ctx context.Context, a arguments, s *server.Server, j *journal) (*polite, error) {
	p := &polite{j: j, stop: make(chan struct{})}
	for n := range a.clients + 2 {
		client, err := s.Client()
		if err != nil {
			return nil, err
		}
		if n < a.clients {
			p.shared = append(p.shared, client)
		} else {
			p.own = append(p.own, client)
		}
	}
	var first int64
	for n := range p.counters {
		answer, err := p.own[0].Put(ctx, key(n), "0")
		if err != nil {
			return nil, err
		}
		p.counters[n].revision.Store(answer.Header.Revision)
		first = answer.Header.Revision
	}
	p.revision.Store(first)
	watches, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	p.group.Go(func() { p.watchAll(watches, p.own[1], first+1) })
	for _, client := range append(p.shared, p.own...) {
		for range 3 {
			p.group.Go(func() { p.count(ctx, client) })
		}
		p.group.Go(func() { p.watchCounters(watches, client, first+1) })
		p.group.Go(func() { p.keepLease(ctx, client) })
	}
	p.group.Go(func() { p.readBulk(ctx, p.shared[0]) })
	p.group.Go(func() { p.readBulk(ctx, p.own[0]) })
	p.group.Go(func() { p.compact(ctx, p.own[0], first) })
	p.group.Go(func() { p.snapshot(ctx, p.own[0]) })
	return p, nil
}

func key(n int) string { return fmt.Sprintf("%s%d", sure, n) }

// finish ends the traffic, compares the counters with what was acknowledged, and closes all connections.
func (p *polite) finish() {
	close(p.stop)
	if p.j.server.Ended() == "" {
		p.judge()
	}
	p.cancel()
	p.group.Wait()
	for _, client := range append(p.shared, p.own...) {
		client.Close()
	}
}

func (p *polite) judge() {
	// Changes in progress end first.
	time.Sleep(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var newest int64
	for n := range p.counters {
		answer, err := p.own[0].Get(ctx, key(n))
		if err != nil {
			p.j.fail("the last read: %v", err)
			return
		}
		changes := p.counters[n].changes.Load()
		if len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != strconv.FormatInt(changes, 10) {
			p.j.fail("%s: %d changes were acknowledged, the key is %v", key(n), changes, answer.Kvs)
			return
		}
		newest = answer.Kvs[0].ModRevision
	}
	if p.changes.Load() == 0 || p.reads.Load() == 0 {
		p.j.fail("too little happened: %s", p.summary())
	}
	for p.revision.Load() < newest {
		if ctx.Err() != nil {
			p.j.fail("the watch of everything ends at %d, before %d", p.revision.Load(), newest)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *polite) summary() string {
	return fmt.Sprintf("never cancelled: %d changes, %d large reads, %d snapshots, %d events; the slowest call took %.0f ms",
		p.changes.Load(), p.reads.Load(), p.snapshots.Load(), p.events.Load(), float64(p.slowest.Load())/1e6)
}

// over tells whether the traffic is to end.
func (p *polite) over(ctx context.Context, rest time.Duration) bool {
	select {
	case <-p.stop:
		return true
	case <-ctx.Done():
		return true
	case <-time.After(rest):
		return false
	}
}

// timed makes one call, which must succeed.
func (p *polite) timed(ctx context.Context, what string, call func(context.Context) error) bool {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := time.Now()
	err := call(bounded)
	took := time.Since(begun).Nanoseconds()
	for was := p.slowest.Load(); took > was && !p.slowest.CompareAndSwap(was, took); was = p.slowest.Load() {
	}
	if err != nil && ctx.Err() == nil && p.j.server.Ended() == "" {
		p.j.fail("%s, never cancelled: %v", what, err)
	}
	return err == nil
}

// count reads a counter and raises it by one if it was not changed meanwhile.
func (p *polite) count(ctx context.Context, client *clientv3.Client) {
	var newest int64
	for n := 0; !p.over(ctx, 2*time.Millisecond); n = (n + 1) % counters {
		c := &p.counters[n]
		floor := c.revision.Load()
		var now *clientv3.GetResponse
		ok := p.timed(ctx, "get", func(ctx context.Context) (err error) {
			now, err = client.Get(ctx, key(n))
			return err
		})
		if !ok {
			continue
		}
		if len(now.Kvs) != 1 || now.Kvs[0].ModRevision < floor {
			p.j.fail("%s: read as %v after a change at %d was acknowledged", key(n), now.Kvs, floor)
			continue
		}
		value, _ := strconv.ParseInt(string(now.Kvs[0].Value), 10, 64)
		var done *clientv3.TxnResponse
		ok = p.timed(ctx, "txn", func(ctx context.Context) (err error) {
			done, err = client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key(n)), "=", now.Kvs[0].ModRevision)).
				Then(clientv3.OpPut(key(n), strconv.FormatInt(value+1, 10))).Commit()
			return err
		})
		if !ok {
			continue
		}
		if now.Header.Revision < newest || done.Header.Revision < now.Header.Revision {
			p.j.fail("revisions went back from %d to %d to %d", newest, now.Header.Revision, done.Header.Revision)
		}
		newest = done.Header.Revision
		if done.Succeeded {
			p.acknowledged(c, done.Header.Revision)
		}
	}
}

func (p *polite) acknowledged(c *counter, revision int64) {
	p.changes.Add(1)
	c.changes.Add(1)
	for was := c.revision.Load(); revision > was && !c.revision.CompareAndSwap(was, revision); was = c.revision.Load() {
	}
}

// watchCounters must see every counter rise by one each time, on the stream that other watches of the client come and go on.
func (p *polite) watchCounters(ctx context.Context, client *clientv3.Client, from int64) {
	var values [counters]int64
	for answer := range client.Watch(ctx, sure, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := answer.Err(); err != nil {
			p.lost(ctx, "watch of counters", err)
			return
		}
		for _, event := range answer.Events {
			n, err := strconv.Atoi(string(event.Kv.Key[len(sure):]))
			if err != nil {
				continue // a key with a lease
			}
			value, _ := strconv.ParseInt(string(event.Kv.Value), 10, 64)
			if value != values[n]+1 {
				p.j.fail("the watch of %s shows %d after %d", key(n), value, values[n])
			}
			values[n] = value
			p.events.Add(1)
		}
	}
	p.lost(ctx, "watch of counters", errors.New("it ended"))
}

// lost notes the end of something that was not asked to end.
func (p *polite) lost(ctx context.Context, what string, err error) {
	if ctx.Err() == nil && p.j.server.Ended() == "" {
		p.j.fail("%s, never cancelled: %v", what, err)
	}
}

// watchAll must see every revision once, in order, and every write that may be cancelled at most once and as a whole.
func (p *polite) watchAll(ctx context.Context, client *clientv3.Client, from int64) {
	seen := map[string]int64{}
	for answer := range client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(from)) {
		if err := answer.Err(); err != nil {
			p.lost(ctx, "watch of everything", err)
			return
		}
		writes := map[string]int{}
		for _, event := range answer.Events {
			revision := event.Kv.ModRevision
			if last := p.revision.Load(); revision != last && revision != last+1 {
				p.j.fail("the watch of everything goes from revision %d to %d", last, revision)
			}
			p.revision.Store(revision)
			p.events.Add(1)
			if !event.IsCreate() && !event.IsModify() || len(event.Kv.Value) != 16 {
				continue
			}
			identity := string(event.Kv.Value)
			if before, ok := seen[identity]; ok && before != revision {
				p.j.fail("write %s happened at %d and at %d", identity, before, revision)
			}
			seen[identity] = revision
			writes[identity]++
			if writes[identity] > 2 {
				p.j.fail("write %s has %d events", identity, writes[identity])
			}
		}
		p.judgePairs(answer, writes)
	}
	p.lost(ctx, "watch of everything", errors.New("it ended"))
}

// judgePairs checks that a transaction of two writes is shown as a whole.
func (p *polite) judgePairs(answer clientv3.WatchResponse, writes map[string]int) {
	for _, event := range answer.Events {
		k := string(event.Kv.Key)
		pair := len(k) > len(unsure)+5 && k[:len(unsure)+5] == unsure+"pair/"
		if pair && writes[string(event.Kv.Value)] != 2 {
			p.j.fail("%s at %d: half a transaction", k, event.Kv.ModRevision)
		}
	}
}

// keepLease keeps a lease alive whose key must stay.
func (p *polite) keepLease(ctx context.Context, client *clientv3.Client) {
	var lease *clientv3.LeaseGrantResponse
	ok := p.timed(ctx, "grant", func(ctx context.Context) (err error) {
		lease, err = client.Grant(ctx, 10)
		return err
	})
	if !ok {
		return
	}
	name := fmt.Sprintf("%slease/%d", sure, lease.ID)
	p.timed(ctx, "put", func(ctx context.Context) error {
		_, err := client.Put(ctx, name, "kept", clientv3.WithLease(lease.ID))
		return err
	})
	answers, err := client.KeepAlive(ctx, lease.ID)
	if err != nil {
		p.lost(ctx, "keep-alive", err)
		return
	}
	for open := true; !p.over(ctx, 50*time.Millisecond); {
		for more := true; more && open; {
			select {
			case _, open = <-answers:
				if !open {
					p.lost(ctx, "keep-alive", errors.New("it ended"))
				}
			default:
				more = false
			}
		}
	}
	p.timed(ctx, "get", func(ctx context.Context) error {
		answer, err := client.Get(ctx, name)
		if err == nil && len(answer.Kvs) != 1 {
			p.j.fail("the key of a lease that was kept alive is gone")
		}
		return err
	})
	p.timed(ctx, "revoke", func(ctx context.Context) error {
		_, err := client.Revoke(ctx, lease.ID)
		return err
	})
}

// readBulk reads megabytes, by one answer and by a stream.
func (p *polite) readBulk(ctx context.Context, client *clientv3.Client) {
	for stream := false; !p.over(ctx, 100*time.Millisecond); stream = !stream {
		p.timed(ctx, "large range", func(ctx context.Context) error {
			var answer *clientv3.GetResponse
			var err error
			if stream {
				var chunks clientv3.GetStreamChan
				if chunks, err = client.GetStream(ctx, bulk, clientv3.WithPrefix()); err == nil {
					answer, err = clientv3.GetStreamToGetResponse(chunks)
				}
			} else {
				answer, err = client.Get(ctx, bulk, clientv3.WithPrefix())
			}
			if err != nil {
				return err
			}
			if len(answer.Kvs) != bulkKeys || len(answer.Kvs[0].Value) != bulkValue {
				p.j.fail("a large range has %d keys", len(answer.Kvs))
			}
			p.reads.Add(1)
			return nil
		})
	}
}

// compact keeps the history short, behind what the watches have shown.
func (p *polite) compact(ctx context.Context, client *clientv3.Client, last int64) {
	for !p.over(ctx, time.Second) {
		// Watches of cancelled calls begin at the newest revision; those that never end are close behind it.
		revision := p.revision.Load() - 5000
		if revision <= last {
			continue
		}
		p.timed(ctx, "compact", func(ctx context.Context) error {
			_, err := client.Compact(ctx, revision)
			return err
		})
		last = revision
	}
}

// snapshot reads a whole snapshot from time to time.
func (p *polite) snapshot(ctx context.Context, client *clientv3.Client) {
	for !p.over(ctx, 2*time.Second) {
		p.timed(ctx, "snapshot", func(ctx context.Context) error {
			answer, err := client.Snapshot(ctx)
			if err != nil {
				return err
			}
			defer answer.Close()
			n, err := io.Copy(io.Discard, answer)
			if err == nil && n < bulkKeys*bulkValue {
				p.j.fail("a snapshot of %d bytes", n)
			}
			p.snapshots.Add(1)
			return err
		})
	}
}
