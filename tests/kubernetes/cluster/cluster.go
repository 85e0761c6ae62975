// Package cluster runs Kubernetes' control plane on one store, all as processes on loopback.
//
// A cluster is a store (vetch or etcd), one or more API servers on it, and, through the first of them, a controller manager, a
// scheduler and kwok, which pretends to be nodes; hollow kubelets can be added. Each is a Process: it can be killed and
// started again at any time, and what it used of the machine can be read. Everything a cluster writes is in one directory;
// the logs stay there.
//
// The API servers always compare their caches with the store and panic if the two differ.
//
// No containers run and no packets leave the machine: a pod is running when kwok or a hollow kubelet says so.
package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Cluster is a control plane that runs.
type Cluster struct {
	Store             *Store
	APIServers        []*APIServer
	ControllerManager *Controller
	Scheduler         *Controller
	Kwok              *Controller
	Kubelets          []*Process

	options Options
}

// Start starts everything and waits until it serves. If that fails, nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func prepare(o Options) (*Cluster, error) {
	if o.APIServers == 0 {
		o.APIServers = 1
	}
	if o.APIServers > mostAPIServers {
		return nil, fmt.Errorf("there are ports for %d API servers", mostAPIServers)
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "logs"), 0o755); err != nil {
		return nil, err
	}
	id, err := newIdentity(filepath.Join(o.Dir, "keys"))
	if err != nil {
		return nil, err
	}
	store, err := newStore(o, id)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, Store: store}
	for n := range o.APIServers {
		server, err := newAPIServer(o, id, store, n)
		if err != nil {
			return nil, err
		}
		c.APIServers = append(c.APIServers, server)
	}
	first := c.APIServers[0].Kubeconfig
	c.ControllerManager = newControllerManager(o, id, first)
	c.Scheduler = newScheduler(o, first)
	c.Kwok = newKwok(o, first)
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.Store.Start(ctx); err != nil {
		return err
	}
	var starts []func(context.Context) error
	for _, server := range c.APIServers {
		starts = append(starts, server.Start)
	}
	if err := together(ctx, starts); err != nil || c.options.NoControllers {
		return err
	}
	return together(ctx, []func(context.Context) error{c.ControllerManager.Start, c.Scheduler.Start, c.Kwok.Start})
}

// together runs all at once and returns one of the failures.
func together(ctx context.Context, all []func(context.Context) error) error {
	failures := make(chan error, len(all))
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() {
			if err := one(ctx); err != nil {
				failures <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// Processes lists all of the cluster, the store last.
func (c *Cluster) Processes() []*Process {
	all := append([]*Process(nil), c.Kubelets...)
	for _, controller := range []*Controller{c.Kwok, c.Scheduler, c.ControllerManager} {
		all = append(all, controller.Process)
	}
	for _, server := range c.APIServers {
		all = append(all, server.Process)
	}
	return append(all, c.Store.Processes()...)
}

// Stop ends everything, the store last, and waits until it is gone. Data and logs stay.
func (c *Cluster) Stop() {
	// What works through an API server has nothing to finish; an API server would wait for its watchers.
	const patience = 5 * time.Second
	var group sync.WaitGroup
	all := c.Processes()
	for _, process := range all[:len(all)-len(c.Store.Processes())] {
		group.Go(func() { process.Stop(patience) })
	}
	group.Wait()
	c.Store.Stop(patience)
}

// Dir is where data and logs are.
func (c *Cluster) Dir() string { return c.options.Dir }

// Logs is the directory of the logs, one for each process.
func (c *Cluster) Logs() string { return filepath.Join(c.options.Dir, "logs") }

// Binary is the path of a program that build.sh built, such as kubectl.
func (c *Cluster) Binary(name string) string { return c.options.binary(name) }
