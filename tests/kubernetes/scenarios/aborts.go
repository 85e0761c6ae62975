package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	abortLists   = 4 // callers on each API server
	abortWatches = 30
	abortEvents  = 40 // a second; what is listed is as many as live at once
)

// aborts is clients that change their minds: lists that are given up in the middle, watches that come and go in crowds, clients
// that drop their connections, and API servers that are killed and started. Events are not cached, so lists and watches of
// them are the store's. Writers and a watch beside all that must not lose anything.
func aborts(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "aborts")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := w.followConfigMaps(ctx, name, 0)
	if err != nil {
		return err
	}
	a := &aborters{w: w, namespace: name, message: strings.Repeat("x", 2000)}
	c := startChurn(ctx, w, name, 3, 5*time.Millisecond)
	a.start(ctx)
	err = a.restartServers(ctx, c)
	cancelled := a.finish()
	if err := firstOf(c.finish(), err); err != nil {
		return err
	}
	w.note("%s", cancelled)
	if a.lists.Load() == 0 || a.watches.Load() == 0 || a.clients.Load() == 0 {
		return fmt.Errorf("too little happened: %s", cancelled)
	}
	return c.judge(ctx, f)
}

type aborters struct {
	w         *world
	namespace string
	message   string
	cancel    context.CancelFunc
	group     sync.WaitGroup

	lists, whole, watches, clients, events atomic.Int64
	restarts                               int
}

func (a *aborters) start(ctx context.Context) {
	ctx, a.cancel = context.WithCancel(ctx)
	run := func(server int, do func(context.Context, *rand.Rand, *kubernetes.Clientset, int)) {
		random := rand.New(rand.NewPCG(a.w.random.Uint64(), a.w.random.Uint64()))
		client := a.w.APIServers[server].Client()
		a.group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				do(ctx, random, client, n)
			}
		})
	}
	for server := range a.w.APIServers {
		for range abortLists {
			run(server, a.list)
		}
		run(server, a.watchCrowd)
		run(server, a.makeEvent)
		run(server, func(ctx context.Context, random *rand.Rand, _ *kubernetes.Clientset, _ int) {
			a.newClient(ctx, random, a.w.APIServers[server].Config)
		})
	}
}

func (a *aborters) finish() string {
	a.cancel()
	a.group.Wait()
	return fmt.Sprintf("%d lists given up and %d read, %d watches cancelled, %d connections dropped, %d events, an API server restarted %d times",
		a.lists.Load(), a.whole.Load(), a.watches.Load(), a.clients.Load(), a.events.Load(), a.restarts)
}

func pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

// list reads all events, or all objects of a page's revision, and gives up at a random moment.
func (a *aborters) list(ctx context.Context, random *rand.Rand, client *kubernetes.Clientset, n int) {
	own, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(time.Duration(random.Int64N(int64(60*time.Millisecond))), cancel)
	defer timer.Stop()
	defer cancel()
	var err error
	switch n % 3 {
	case 0, 1:
		_, err = client.CoreV1().Events(a.namespace).List(own, metav1.ListOptions{})
	default:
		var page *v1.ConfigMapList
		page, err = client.CoreV1().ConfigMaps("").List(own, metav1.ListOptions{Limit: 10})
		if err == nil {
			_, err = client.CoreV1().ConfigMaps("").List(own, metav1.ListOptions{Limit: 500, Continue: page.Continue})
		}
	}
	if own.Err() != nil {
		a.lists.Add(1)
		return
	}
	if err == nil {
		a.whole.Add(1)
		return
	}
	// The API server is being restarted, or has enough for now.
	pause(ctx, 20*time.Millisecond)
}

// watchCrowd starts many watches of the store at once and cancels all of them.
func (a *aborters) watchCrowd(ctx context.Context, random *rand.Rand, client *kubernetes.Clientset, _ int) {
	own, cancel := context.WithTimeout(ctx, time.Duration(50+random.IntN(300))*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for range abortWatches {
		group.Go(func() {
			stream, err := client.CoreV1().Events(a.namespace).Watch(own, metav1.ListOptions{})
			if err != nil {
				return
			}
			defer stream.Stop()
			a.watches.Add(1)
			drain(own, stream)
		})
	}
	group.Wait()
	pause(ctx, 20*time.Millisecond)
}

func drain(ctx context.Context, stream watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-stream.ResultChan():
			if !open {
				return
			}
		}
	}
}

// newClient is a client that starts, lists and watches like an informer, and is gone with its connection.
func (a *aborters) newClient(ctx context.Context, random *rand.Rand, config *rest.Config) {
	own := rest.CopyConfig(config)
	transport, err := rest.TransportFor(own)
	if err != nil {
		return
	}
	if base, ok := transport.(*http.Transport); ok {
		transport = base.Clone()
	}
	client, err := kubernetes.NewForConfigAndClient(own, &http.Client{Transport: transport})
	if err != nil {
		return
	}
	short, cancel := context.WithTimeout(ctx, time.Duration(20+random.IntN(200))*time.Millisecond)
	defer cancel()
	events := client.CoreV1().Events(a.namespace)
	if list, err := events.List(short, metav1.ListOptions{}); err == nil {
		if stream, err := events.Watch(short, metav1.ListOptions{ResourceVersion: list.ResourceVersion}); err == nil {
			drain(short, stream)
			stream.Stop()
		}
	}
	cancel()
	if base, ok := transport.(*http.Transport); ok {
		base.CloseIdleConnections()
	}
	a.clients.Add(1)
	pause(ctx, 10*time.Millisecond)
}

// makeEvent keeps some megabytes of events in the store.
func (a *aborters) makeEvent(ctx context.Context, random *rand.Rand, client *kubernetes.Clientset, _ int) {
	object := event(a.namespace, fmt.Sprintf("event-%012x", random.Uint64N(1<<48)))
	object.Annotations = map[string]string{"text": a.message}
	_, err := client.CoreV1().Events(a.namespace).Create(ctx, object, metav1.CreateOptions{})
	if err == nil {
		a.events.Add(1)
	}
	pause(ctx, time.Second/abortEvents)
}

// restartServers kills the second API server, or asks it to end, again and again until the time is over.
func (a *aborters) restartServers(ctx context.Context, c *churn) error {
	server := a.w.APIServers[1]
	for end := time.Now().Add(a.w.aborts); ; a.restarts++ {
		if err := c.progress(ctx, 20, 2*time.Minute); err != nil {
			return err
		}
		pause(ctx, min(time.Until(end), 15*time.Second))
		if !a.w.Store.Running() {
			return fmt.Errorf("the store has ended")
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
		if a.restarts%2 == 0 {
			server.Kill()
		} else {
			server.Stop(time.Minute)
		}
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
}
