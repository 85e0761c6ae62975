package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"vetch.invalid/trials/cluster"
)

const (
	termOfOffice = 4 * time.Second // how long a lease holds that is not renewed
	electionName = "trial"
)

// candidate runs as a process of its own and stands for election until it is killed or loses.
func candidate(arguments []string) {
	kubeconfig, namespace, name := arguments[0], arguments[1], arguments[2]
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config.Timeout = 2 * time.Second
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: electionName, Namespace: namespace},
		Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: termOfOffice, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { fmt.Println("leads"); <-ctx.Done() },
			OnStoppedLeading: func() { fmt.Println("leads no more"); os.Exit(1) },
		},
	})
}

// election lets two candidates stand, through different API servers, and kills whoever leads, three times. The other takes
// over, not before the term is over, and never do two lead at once. The controllers' own leases are renewed meanwhile.
func election(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "election")
	if err != nil {
		return err
	}
	before, err := controllerLeases(ctx, w)
	if err != nil {
		return err
	}
	var standing []*cluster.Process
	defer func() {
		for _, process := range standing {
			process.Kill()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	stand := func(n int) error {
		process := &cluster.Process{
			Name:       fmt.Sprintf("candidate-%d", n),
			Log:        filepath.Join(w.Logs(), fmt.Sprintf("candidate-%d.log", n)),
			Supervised: true,
			Command:    []string{self, "candidate", w.APIServers[n%2].Kubeconfig, name, fmt.Sprintf("candidate-%d", n)},
		}
		standing = append(standing, process)
		return process.Start()
	}
	for n := range 2 {
		if err := stand(n); err != nil {
			return err
		}
	}
	for n := 2; n < 5; n++ {
		leader, err := awaitLeader(ctx, w, name, "")
		if err != nil {
			return err
		}
		for _, process := range standing {
			if process.Name == leader {
				process.Kill()
			}
		}
		killed := time.Now()
		next, err := awaitLeader(ctx, w, name, leader)
		if err != nil {
			return err
		}
		w.note("%s after %s in %.1fs", next, leader, time.Since(killed).Seconds())
		if err := stand(n); err != nil {
			return err
		}
	}
	if err := leasesRenewed(ctx, w, before); err != nil || w.fast {
		return err
	}
	return schedulerFailover(ctx, w)
}

// schedulerFailover kills the scheduler and starts another: it gets the lease when the dead one's term is over.
func schedulerFailover(ctx context.Context, w *world) error {
	leases := w.clients[1].CoordinationV1().Leases("kube-system")
	holder := func() (string, error) {
		var holder string
		err := w.try(ctx, "read the scheduler's lease", func() error {
			lease, err := leases.Get(ctx, "kube-scheduler", metav1.GetOptions{})
			if err == nil && lease.Spec.HolderIdentity != nil {
				holder = *lease.Spec.HolderIdentity
			}
			return err
		})
		return holder, err
	}
	old, err := holder()
	if err != nil {
		return err
	}
	w.Scheduler.Kill()
	begun := time.Now()
	if err := w.Scheduler.Start(ctx); err != nil {
		return err
	}
	err = w.until(ctx, time.Minute, "the new scheduler to hold the lease", func() (bool, error) {
		next, err := holder()
		return next != old && next != "", err
	})
	w.note("a new scheduler leads after %.1fs", time.Since(begun).Seconds())
	return err
}

// awaitLeader waits until somebody else than the given one leads, and checks that the change is not premature.
func awaitLeader(ctx context.Context, w *world, namespace, old string) (string, error) {
	leases := w.clients[1].CoordinationV1().Leases(namespace)
	var holder string
	var renewed time.Time
	err := w.until(ctx, 45*time.Second, "another leader than "+old, func() (bool, error) {
		lease, err := leases.Get(ctx, electionName, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, err
		}
		holder = *lease.Spec.HolderIdentity
		if holder == old {
			renewed = lease.Spec.RenewTime.Time
			return false, nil
		}
		if old != "" && !renewed.IsZero() && lease.Spec.AcquireTime.Time.Sub(renewed) < termOfOffice-time.Second {
			early := lease.Spec.AcquireTime.Sub(renewed)
			return false, cluster.GiveUp(fmt.Errorf("%s took over %v after %s had renewed", holder, early, old))
		}
		return holder != "", nil
	})
	return holder, err
}

// controllerLeases reads who holds the leases of the controller manager and the scheduler, and until when.
func controllerLeases(ctx context.Context, w *world) (map[string]time.Time, error) {
	renewed := map[string]time.Time{}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		err := w.until(ctx, 30*time.Second, name+" to hold its lease", func() (bool, error) {
			lease, err := w.clients[1].CoordinationV1().Leases("kube-system").Get(ctx, name, metav1.GetOptions{})
			if err != nil || lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil {
				return false, err
			}
			renewed[name] = lease.Spec.RenewTime.Time
			return !strings.HasPrefix(*lease.Spec.HolderIdentity, "candidate"), nil
		})
		if err != nil {
			return nil, err
		}
	}
	return renewed, nil
}

func leasesRenewed(ctx context.Context, w *world, before map[string]time.Time) error {
	return w.until(ctx, 30*time.Second, "the controllers to renew their leases", func() (bool, error) {
		after, err := controllerLeases(ctx, w)
		if err != nil {
			return false, err
		}
		for name, then := range before {
			if !after[name].After(then) {
				return false, nil
			}
		}
		return true, nil
	})
}
