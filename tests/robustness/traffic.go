package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
)

// profile is one of upstream's mixes of requests at one of upstream's rates.
type profile struct {
	mix     traffic.Traffic
	traffic traffic.Profile
}

var profiles = map[string]profile{
	"etcd":              {traffic.EtcdPut, at(traffic.KeyValueHigh, traffic.CompactionDefault)},
	"etcd-delete-lease": {traffic.EtcdPutDeleteLease, at(traffic.KeyValueMedium, traffic.CompactionDefault)},
	"etcd-delete":       {traffic.EtcdDelete, at(traffic.KeyValueMedium, traffic.CompactionFrequent)},
	"kubernetes":        {traffic.Kubernetes, at(traffic.KeyValueHigh, traffic.CompactionDefault)},
	"kubernetes-create": {traffic.KubernetesCreateDelete, at(traffic.KeyValueMedium, traffic.CompactionDefault)},
}

func at(rate traffic.KeyValue, compaction traffic.Compaction) traffic.Profile {
	return traffic.Profile{KeyValue: &rate, Watch: &traffic.WatchDefault, Compaction: &compaction}
}

type fault func(*server, context.Context) error

var faults = map[string]fault{
	"none":  nil,
	"kill":  (*server).kill,
	"pause": (*server).pause,
	"both": func(s *server, ctx context.Context) error {
		if rand.IntN(2) == 0 {
			return s.kill(ctx)
		}
		return s.pause(ctx)
	},
}

// history is what the clients saw of a run.
type history struct {
	reports []report.ClientReport
	faults  int
	begin   time.Duration
	end     time.Duration
	calm    time.Duration // when the first fault came, or the end
}

// run lets the traffic loose on the server, makes the fault happen again and again, and collects what clients saw.
func run(ctx context.Context, lg *zap.Logger, s *server, p profile, o options) (history, error) {
	base := time.Now()
	ids := identity.NewIDProvider()
	clients := client.NewSet(ids, base)
	defer clients.Close()
	watchers := client.NewSet(ids, base)
	defer watchers.Close()
	endpoints := []string{s.endpoint}
	if err := traffic.CheckEmptyDatabaseAtStart(ctx, lg, endpoints, clients); err != nil {
		return history{}, err
	}
	var h history
	group, ctx := errgroup.WithContext(ctx)
	newest := make(chan int64, 1)
	group.Go(func() (err error) {
		defer close(newest)
		h.begin = time.Since(base)
		all := crowd{clients: clients, endpoints: endpoints, finish: make(chan struct{})}
		if err := all.simulate(ctx, lg, p); err != nil {
			return err
		}
		h.faults, h.calm, err = disturb(ctx, s, faults[o.fault], base, base.Add(h.begin+o.length))
		close(all.finish)
		all.busy.Wait()
		h.end = time.Since(base)
		if err != nil {
			return err
		}
		// The linearization needs a write at the end that is known to have succeeded.
		last, err := clients.NewClient(endpoints)
		if err != nil {
			return err
		}
		if _, err := last.Put(ctx, "tombstone", "true"); err != nil {
			return fmt.Errorf("the last write failed: %w", err)
		}
		newest <- report.OperationsMaxRevision(clients.Reports())
		return nil
	})
	// One watcher of everything, from the beginning to the last revision that any client saw.
	group.Go(func() error {
		return client.CollectClusterWatchEvents(ctx, client.CollectClusterWatchEventsParam{
			Lg: lg, Endpoints: endpoints, MaxRevisionChan: newest, ClientSet: watchers,
		})
	})
	err := group.Wait()
	h.reports = slices.Concat(clients.Reports(), watchers.Reports())
	return h, err
}

// crowd is who the simulated clients are and when they go home.
type crowd struct {
	clients   *client.ClientSet
	endpoints []string
	busy      sync.WaitGroup
	finish    chan struct{}
}

func (c *crowd) simulate(ctx context.Context, lg *zap.Logger, p profile) error {
	of := p.traffic
	limit := rate.NewLimiter(rate.Limit(of.KeyValue.MaximalQPS), of.KeyValue.BurstableQPS)
	keys := traffic.NewKeyStore(10, "key")
	objects := traffic.NewKubernetesStorage()
	request := traffic.RunTrafficLoopParam{
		QPSLimiter: limit, KeyStore: keys, Storage: objects, Finish: c.finish,
		IDs: c.clients.IdentityProvider(), LeaseIDStorage: identity.NewLeaseIDStorage(),
		NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(of.KeyValue.MaxNonUniqueRequestConcurrency),
	}
	watch := traffic.RunWatchLoopParam{
		QPSLimiter: limit, KeyStore: keys, Storage: objects, Finish: c.finish, Config: *of.Watch, Logger: lg,
	}
	compact := traffic.RunCompactLoopParam{Period: of.Compaction.Period, Finish: c.finish}
	if err := traffic.SimulateKeyValueTraffic(ctx, &c.busy, of.KeyValue, c.endpoints, c.clients, p.mix, request); err != nil {
		return err
	}
	if err := traffic.SimulateWatchTraffic(ctx, &c.busy, of.Watch, c.endpoints, c.clients, p.mix, watch); err != nil {
		return err
	}
	return traffic.SimulateCompactionTraffic(ctx, &c.busy, of.Compaction, c.endpoints, c.clients, p.mix, compact)
}

// disturb keeps up the fault until the end, leaving some seconds of traffic before, between and after, and says how
// often it struck and when first.
func disturb(ctx context.Context, s *server, strike fault, base, end time.Time) (struck int, first time.Duration, err error) {
	const quiet = 2 * time.Second
	first = end.Sub(base)
	for strike != nil && time.Until(end) > 2*quiet {
		if err := sleep(ctx, quiet/2+upTo(quiet)); err != nil {
			return struck, first, err
		}
		first = min(first, time.Since(base))
		if err := strike(s, ctx); err != nil {
			return struck, first, fmt.Errorf("fault %d: %w", struck+1, err)
		}
		struck++
	}
	return struck, first, sleep(ctx, time.Until(end))
}

func sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

func upTo(length time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(length)))
}
