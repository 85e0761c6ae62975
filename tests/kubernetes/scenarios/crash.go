package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// storeCrash kills the store again and again while writers write through both API servers. Everything that was acknowledged is
// there afterwards, and watches through both API servers told every change once.
func storeCrash(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "crash")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var followers []*follower
	for server := range w.clients {
		f, err := w.followConfigMaps(ctx, name, server)
		if err != nil {
			return err
		}
		followers = append(followers, f)
	}
	kills := 10
	if w.fast {
		kills = 3
	}
	c := startChurn(ctx, w, name, 4, 0)
	err = func() error {
		for range kills {
			if err := c.progress(ctx, 10+w.random.IntN(40), time.Minute); err != nil {
				return err
			}
			if err := w.crashStore(ctx); err != nil {
				return err
			}
		}
		return c.progress(ctx, 10, time.Minute)
	}()
	if err := firstOf(c.finish(), err); err != nil {
		return err
	}
	return c.judge(ctx, followers...)
}

func firstOf(errors ...error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

// serverRestart kills an API server in the middle of churn and starts it again; then it is asked to end, and started again.
// Writers through the other one, and a watch through it, do not notice.
func serverRestart(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "restart")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := w.followConfigMaps(ctx, name, 0)
	if err != nil {
		return err
	}
	c := startChurn(ctx, w, name, 3, 0)
	server := w.APIServers[1]
	err = func() error {
		ends := []func(){server.Kill}
		if !w.fast {
			ends = append(ends, func() { server.Stop(time.Minute) })
		}
		for _, end := range ends {
			if err := c.progress(ctx, 30, time.Minute); err != nil {
				return err
			}
			end()
			begun := time.Now()
			if err := server.Start(ctx); err != nil {
				return err
			}
			w.note("ready after %.1fs", time.Since(begun).Seconds())
		}
		return c.progress(ctx, 30, time.Minute)
	}()
	if err := firstOf(c.finish(), err); err != nil {
		return err
	}
	return c.judge(ctx, f)
}

// kubectlWatch runs `kubectl get --watch` through churn and a crash of the store. It must see every change, and not end.
func kubectlWatch(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "kubectl")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := w.followByKubectl(ctx, name)
	if err != nil {
		return err
	}
	// An API server drops watchers that are too slow, and kubectl does not come back then.
	c := startChurn(ctx, w, name, 2, 20*time.Millisecond)
	err = func() error {
		for range 2 {
			if err := c.progress(ctx, 30, time.Minute); err != nil {
				return err
			}
			if err := w.crashStore(ctx); err != nil {
				return err
			}
		}
		return c.progress(ctx, 30, time.Minute)
	}()
	if err := firstOf(c.finish(), err); err != nil {
		return err
	}
	return c.judge(ctx, f)
}

// followByKubectl lets kubectl watch; the follower is fed from its output, and fails if kubectl ends.
func (w *world) followByKubectl(ctx context.Context, namespace string) (*follower, error) {
	command := w.kubectl(ctx, 1, "get", "configmaps", "--namespace", namespace, "--selector", selector,
		"--watch", "--output-watch-events", "--output", "json")
	log, err := os.Create(filepath.Join(w.Logs(), "kubectl.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stderr = log
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	f := &follower{name: "kubectl"}
	go f.feed(ctx, command, out)
	return f, w.awaitKubectl(ctx, namespace, f)
}

func (f *follower) feed(ctx context.Context, command *exec.Cmd, out io.Reader) {
	decoder := json.NewDecoder(out)
	for {
		var event struct {
			Type   watch.EventType
			Object v1.ConfigMap
		}
		if err := decoder.Decode(&event); err != nil {
			status := command.Wait()
			if ctx.Err() == nil {
				f.mu.Lock()
				f.err = fmt.Errorf("kubectl ended (%v): %w", status, err)
				f.mu.Unlock()
			}
			return
		}
		f.mu.Lock()
		f.events = append(f.events, seen{event.Type, event.Object.Name, event.Object.ResourceVersion,
			event.Object.Data[field], time.Now()})
		f.mu.Unlock()
	}
}

// awaitKubectl waits until kubectl watches: an object made before is seen, and then forgotten.
func (w *world) awaitKubectl(ctx context.Context, namespace string, f *follower) error {
	const probe = "probe"
	client := w.clients[0].CoreV1().ConfigMaps(namespace)
	err := w.try(ctx, "create a probe", func() error {
		object := newWriter("", client, w.random, 1).object(probe, "", "")
		_, err := client.Create(ctx, object, metav1.CreateOptions{})
		return w.created(err)
	})
	if err != nil {
		return err
	}
	if _, err := f.await(ctx, w, probe, 30*time.Second); err != nil {
		return err
	}
	err = w.try(ctx, "delete the probe", func() error {
		return w.deleted(client.Delete(ctx, probe, metav1.DeleteOptions{}))
	})
	if err != nil {
		return err
	}
	err = w.until(ctx, 30*time.Second, "kubectl to see that the probe is deleted", func() (bool, error) {
		events, _, err := f.soFar()
		return len(events) > 0 && events[len(events)-1].kind == watch.Deleted, err
	})
	f.mu.Lock()
	f.events = nil
	f.mu.Unlock()
	return err
}
